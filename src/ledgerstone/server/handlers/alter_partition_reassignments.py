"""AlterPartitionReassignments (45). Grade D.

Behaviour: the replicas a partition has already are accepted and change nothing; there is no other
broker yet that one could be moved to. Cancelling is answered with NO_REASSIGNMENT_IN_PROGRESS.
Versions: 0-1.
Differs from Kafka: the order of the replicas cannot be changed, because there is only one.
"""

from ledgerstone.errors import InvalidReplicaAssignment, KafkaError, UnknownTopicOrPartition
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReassignmentsPartition,
    AlterReassignmentsPartitionResult,
    AlterReassignmentsTopicResult,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: AlterPartitionReassignmentsRequest) -> Answer:
    return AlterPartitionReassignmentsResponse(
        # Kafka says so where no topic is named, and nothing where one is.
        error_message=None if message.topics else "",
        allow_replication_factor_change=message.allow_replication_factor_change,
        responses=[
            AlterReassignmentsTopicResult(
                name=topic.name,
                partitions=[_answer(broker, topic.name, asked) for asked in topic.partitions],
            )
            for topic in message.topics
        ],
    )


def _answer(
    broker: Broker, topic: str, asked: AlterReassignmentsPartition
) -> AlterReassignmentsPartitionResult:
    answer = AlterReassignmentsPartitionResult(partition_index=asked.partition_index)
    try:
        _check(broker, topic, asked.partition_index, asked.replicas)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, str(error)
        return answer
    if asked.replicas is None:
        answer.error_code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        answer.error_message = f"{topic}-{asked.partition_index} is not being reassigned"
    return answer


def _check(broker: Broker, topic: str, number: int, replicas: list[int] | None) -> None:
    state = broker.image.partition(topic, number)
    if state is None:
        raise UnknownTopicOrPartition(f"{topic}-{number} does not exist")
    if replicas is None:
        return
    if not replicas or len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment(f"replicas {replicas}: none, or the same one twice")
    unknown = [node_id for node_id in replicas if node_id not in broker.image.brokers]
    if unknown or tuple(replicas) != state.replicas:
        known = list(broker.image.brokers)
        raise InvalidReplicaAssignment(f"replicas {replicas}, but the only brokers are {known}")
