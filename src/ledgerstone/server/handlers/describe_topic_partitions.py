"""DescribeTopicPartitions (75). Grade D.

Behaviour: partitions of topics in the order of names, at most as many as asked for, with a cursor
for the rest. An empty list means all topics. A cursor below 0 is INVALID_REQUEST for each.
Versions: 0.
"""

from ledgerstone.errors import InvalidTopic
from ledgerstone.metadata.image import PartitionImage
from ledgerstone.metadata.reachable import PartitionView
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS, check_topic_name
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsNextCursor,
    DescribeTopicPartitionsPartition,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.metadata import ALL_TOPIC_OPERATIONS
from ledgerstone.server.request import Answer, Request

_MOST_PARTITIONS = 2000


def handle(broker: Broker, request: Request, message: DescribeTopicPartitionsRequest) -> Answer:
    if message.cursor is not None and message.cursor.partition_index < 0:
        code = ErrorCode.INVALID_REQUEST
        refused = [DescribeTopicPartitionsResponseTopic(code, each.name) for each in message.topics]
        return DescribeTopicPartitionsResponse(topics=refused)
    names = sorted({topic.name for topic in message.topics} or broker.image.topics)
    first_partition = 0
    if message.cursor is not None:
        names = [name for name in names if name >= message.cursor.topic_name]
        if names and names[0] == message.cursor.topic_name:
            first_partition = message.cursor.partition_index
    left = min(max(1, message.response_partition_limit), _MOST_PARTITIONS)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if left <= 0:
            response.next_cursor = DescribeTopicPartitionsNextCursor(name, 0)
            break
        topic = _describe(broker, request, name, first_partition, left)
        response.topics.append(topic)
        left -= len(topic.partitions)
        end = first_partition + len(topic.partitions)
        found = broker.image.topics.get(name)
        if found is not None and end < len(found.partitions):
            response.next_cursor = DescribeTopicPartitionsNextCursor(name, end)
            break
        first_partition = 0
    return response


def _describe(
    broker: Broker, request: Request, name: str, first: int, limit: int
) -> DescribeTopicPartitionsResponseTopic:
    topic = broker.image.topics.get(name)
    if topic is None:
        try:
            check_topic_name(name)
        except InvalidTopic:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        else:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeTopicPartitionsResponseTopic(
            error_code=code, name=name, topic_authorized_operations=ALL_TOPIC_OPERATIONS
        )
    view = PartitionView(broker.image, request.session.listener)
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
        partitions=[
            _partition(view, number, state)
            for number, state in sorted(topic.partitions.items())[first : first + limit]
        ],
    )


def _partition(
    view: PartitionView, number: int, state: PartitionImage
) -> DescribeTopicPartitionsPartition:
    leader, error = view.leader_and_error(state)
    return DescribeTopicPartitionsPartition(
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.eligible_leader_replicas),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=view.offline_replicas(state),
    )
