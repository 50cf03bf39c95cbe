"""BrokerHeartbeat (63). Grade D.

Behaviour: a broker is alive, says how far its metadata is and what it wants: to be fenced,
unfenced, or to shut down. The contact counts before anything waits.
Versions: 0-2.
"""

from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: BrokerHeartbeatRequest) -> Answer:
    broker.controller_link.heard_from(message, request.connection)
    return ask_controller(broker, request, message)
