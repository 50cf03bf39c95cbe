"""AlterPartitionReassignments (45). Grade D.

Behaviour: begins, replaces or cancels the move of a partition to other replicas. The rules are the
controller's: metadata/README.md.
Versions: 0-1.
"""

from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: AlterPartitionReassignmentsRequest) -> Answer:
    return ask_controller(broker, request, message)
