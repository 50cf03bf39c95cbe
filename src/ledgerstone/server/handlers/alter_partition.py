"""AlterPartition (56). Grade D.

Behaviour: the leader of a partition changes its in-sync replicas. The rules are the controller's:
metadata/README.md.
Versions: 2-3.
"""

from ledgerstone.protocol.messages.alter_partition import AlterPartitionRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: AlterPartitionRequest) -> Answer:
    return ask_controller(broker, request, message)
