"""ListPartitionReassignments (46). Grade D.

Behaviour: partitions whose replicas are being changed, of all topics or of those asked for. The
active controller knows them.
Versions: 0.
"""

from ledgerstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: ListPartitionReassignmentsRequest) -> Answer:
    return ask_controller(broker, request, message)
