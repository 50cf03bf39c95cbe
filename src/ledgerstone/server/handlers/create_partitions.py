"""CreatePartitions (37). Grade D.

Behaviour: raises the number of partitions of a topic; it never falls.
The rules are the controller's: metadata/README.md.
Versions: 0-3.
"""

from ledgerstone.protocol.messages.create_partitions import CreatePartitionsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: CreatePartitionsRequest) -> Answer:
    return ask_controller(broker, request, message)
