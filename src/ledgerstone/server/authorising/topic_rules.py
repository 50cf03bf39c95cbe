"""Rules about topics and what is in them. Grade D, through the handlers.

A topic that is refused gets TOPIC_AUTHORIZATION_FAILED, whether it exists or not: nobody learns of
a topic that may not be described.
"""

from collections.abc import Callable
from typing import Any, Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage, Struct, replace
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from ledgerstone.protocol.messages.describe_producers import (
    DescribeProducersPartition,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
    DescribeProducersResponseTopic,
)
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from ledgerstone.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from ledgerstone.security.acl import AclOperation
from ledgerstone.server.authorising.call import GuardedCall, Rule
from ledgerstone.server.request import Answer

TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def each_topic_needs(
    operation: AclOperation,
    answer_of: type[Any],
    refused_topic: Callable[[Any], Any],
    *,
    unless_on_cluster: AclOperation | None = None,
) -> Rule:
    """For requests with `topics` that are answered one by one, in `topics` of their answer."""

    def rule(call: GuardedCall) -> Answer:
        if unless_on_cluster is not None and call.sees_on_cluster(unless_on_cluster):
            return call.pass_on()
        topics = call.message.topics
        allowed, refused = call.split(topics, operation, _name_of)
        if not refused:
            return call.pass_on()
        answers = [refused_topic(each) for each in refused]
        if not allowed:
            answer: ApiMessage = answer_of(topics=answers)
            return answer

        def finish(response: ApiMessage) -> ApiMessage:
            response.topics += answers  # type: ignore[attr-defined]
            return response

        return call.pass_on(replace(call.message, topics=allowed), finish)

    return rule


def _name_of(topic: Struct) -> str:
    # One API calls it `topic`.
    name: str = getattr(topic, "topic" if hasattr(topic, "topic") else "name")
    return name


def _offsets_refused(topic: ListOffsetsRequestTopic) -> ListOffsetsResponseTopic:
    return ListOffsetsResponseTopic(
        topic.name,
        [
            ListOffsetsResponsePartition(
                each.partition_index, TOPIC_DENIED, timestamp=-1, offset=-1
            )
            for each in topic.partitions
        ],
    )


def _deletes_refused(topic: DeleteRecordsRequestTopic) -> DeleteRecordsResponseTopic:
    return DeleteRecordsResponseTopic(
        topic.name,
        [
            DeleteRecordsResponsePartition(each.partition_index, -1, TOPIC_DENIED)
            for each in topic.partitions
        ],
    )


def _epochs_refused(topic: OffsetForLeaderEpochRequestTopic) -> OffsetForLeaderEpochResponseTopic:
    return OffsetForLeaderEpochResponseTopic(
        topic.topic,
        [
            OffsetForLeaderEpochResponsePartition(TOPIC_DENIED, each.partition)
            for each in topic.partitions
        ],
    )


def _producers_refused(topic: DescribeProducersRequestTopic) -> DescribeProducersResponseTopic:
    return DescribeProducersResponseTopic(
        topic.name,
        [DescribeProducersPartition(each, TOPIC_DENIED) for each in topic.partition_indexes],
    )


LIST_OFFSETS: Final = each_topic_needs(AclOperation.DESCRIBE, ListOffsetsResponse, _offsets_refused)
DELETE_RECORDS: Final = each_topic_needs(
    AclOperation.DELETE, DeleteRecordsResponse, _deletes_refused
)
OFFSET_FOR_LEADER_EPOCH: Final = each_topic_needs(
    AclOperation.DESCRIBE,
    OffsetForLeaderEpochResponse,
    _epochs_refused,
    unless_on_cluster=AclOperation.CLUSTER_ACTION,
)
DESCRIBE_PRODUCERS: Final = each_topic_needs(
    AclOperation.READ, DescribeProducersResponse, _producers_refused
)
