"""OffsetCommit (8). Grade D.

Behaviour: offsets are in __consumer_offsets before the answer leaves. A partition that does not
exist is UNKNOWN_TOPIC_OR_PARTITION, and the others of the request are committed; as in Kafka it
comes first in the answer, and where no partition is left the group is not asked at all.
The rules are the coordinator's: coordinator/README.md.
Versions: 2-9.
"""

from functools import partial

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage, replace
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.known_partitions import add_answered, split_partitions
from ledgerstone.server.request import Answer, Request
from ledgerstone.types import INT64_MAX, TopicPartition


def handle(broker: Broker, request: Request, message: OffsetCommitRequest) -> Answer:
    known, response = _split(broker, message.topics)
    if message.topics and not known:
        return response
    # Kept as the time it ends, which has to fit the record it is kept in.
    longest_ms = INT64_MAX - broker.clock.now_ms()
    retention_ms = min(message.retention_time_ms, longest_ms)
    asked = replace(message, topics=known, retention_time_ms=retention_ms)
    return broker.groups.ask(
        request,
        message.group_id,
        lambda shard, context, now: shard.handle_offset_commit(asked, context, now),
        from_member=bool(message.member_id),
        finish=partial(_finished, broker, known, response),
    )


def _finished(
    broker: Broker,
    known: list[OffsetCommitRequestTopic],
    response: OffsetCommitResponse,
    answer: ApiMessage,
) -> OffsetCommitResponse:
    assert isinstance(answer, OffsetCommitResponse)
    for topic in known:
        for partition in topic.partitions:
            broker.cleaning.offset_committed(TopicPartition(topic.name, partition.partition_index))
    add_answered(response.topics, answer.topics)
    return response


def _split(
    broker: Broker, topics: list[OffsetCommitRequestTopic]
) -> tuple[list[OffsetCommitRequestTopic], OffsetCommitResponse]:
    """What can be committed, with its topic id, and the answer to the rest."""
    image = broker.image
    known, missing = split_partitions(image, topics)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = [
        OffsetCommitResponseTopic(
            name, partitions=[OffsetCommitResponsePartition(each, code) for each in numbers]
        )
        for name, numbers in missing
    ]
    asked = [
        replace(topic, topic_id=image.topics[topic.name].topic_id, partitions=there)
        for topic, there in known
    ]
    return asked, OffsetCommitResponse(topics=refused)
