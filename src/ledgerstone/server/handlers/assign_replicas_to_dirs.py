"""AssignReplicasToDirs (73). Grade D.

Behaviour: a broker says in which of its log directories each of its replicas is.
Versions: 0.
"""

from ledgerstone.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: AssignReplicasToDirsRequest) -> Answer:
    return ask_controller(broker, request, message)
