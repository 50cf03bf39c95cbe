"""ListPartitionReassignments (46). Grade D.

Behaviour: partitions whose replicas are being changed, of all topics or of those asked for.
Versions: 0.
"""

from collections.abc import Iterable

from ledgerstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsPartition,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponseTopic,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: ListPartitionReassignmentsRequest) -> Answer:
    response = ListPartitionReassignmentsResponse()
    if message.topics is None:
        for topic in broker.image.topics.values():
            _add(response, broker, topic.name, topic.partitions)
    else:
        for asked in message.topics:
            _add(response, broker, asked.name, asked.partition_indexes)
    return response


def _add(
    response: ListPartitionReassignmentsResponse, broker: Broker, name: str, numbers: Iterable[int]
) -> None:
    answer = ListPartitionReassignmentsResponseTopic(name=name)
    for number in numbers:
        state = broker.image.partition(name, number)
        if state is not None and (state.adding_replicas or state.removing_replicas):
            answer.partitions.append(
                ListPartitionReassignmentsPartition(
                    partition_index=number,
                    replicas=list(state.replicas),
                    adding_replicas=list(state.adding_replicas),
                    removing_replicas=list(state.removing_replicas),
                )
            )
    if answer.partitions:
        response.topics.append(answer)
