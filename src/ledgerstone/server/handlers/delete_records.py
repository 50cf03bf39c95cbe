"""DeleteRecords (21). Grade D.

Behaviour: moves the log start offset; -1 means the high watermark. Answers once the replicas on
live brokers have followed, or REQUEST_TIMED_OUT. Disk space returns with the next retention run
that finds a whole segment below it. Refused for internal topics and where the policy does not
delete.
Versions: 0-2.
"""

from functools import partial

from ledgerstone.errors import InvalidTopic, KafkaError, OffsetOutOfRange, PolicyViolation
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from ledgerstone.replication.leader import Leader
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Parked, Request
from ledgerstone.types import TopicPartition

_HIGH_WATERMARK = -1

# The log start that every replica must reach. A partition that is named twice is here twice.
_Waiting = list[tuple[TopicPartition, int, DeleteRecordsResponsePartition]]


def handle(broker: Broker, request: Request, message: DeleteRecordsRequest) -> Answer:
    waiting: _Waiting = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponseTopic(
                name=topic.name,
                partitions=[
                    _delete(broker, topic.name, asked, waiting) for asked in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )
    if not waiting:
        return response
    return Parked(
        attempt=partial(_attempt, broker, response, waiting),
        deadline_ms=broker.clock.monotonic_ms() + message.timeout_ms,
        keys=dict.fromkeys(topic_partition for topic_partition, _, _ in waiting),
    )


def _delete(
    broker: Broker, topic: str, asked: DeleteRecordsRequestPartition, waiting: _Waiting
) -> DeleteRecordsResponsePartition:
    answer = DeleteRecordsResponsePartition(partition_index=asked.partition_index, low_watermark=-1)
    topic_partition = TopicPartition(topic, asked.partition_index)
    try:
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"{topic} is internal")
        partition = broker.partitions.get(topic_partition)
        partition.check_leader()
        log = partition.log
        if not log.config.deletes:
            raise PolicyViolation(
                f"{topic} has cleanup.policy={','.join(log.config.cleanup_policy)}"
            )
        offset = log.high_watermark if asked.offset == _HIGH_WATERMARK else asked.offset
        if offset < 0:
            raise OffsetOutOfRange(f"offset {offset}")
        log.raise_log_start_offset(offset)
        answer.low_watermark = _low_watermark(broker, topic_partition)
        if answer.low_watermark < offset:
            waiting.append((topic_partition, offset, answer))
    except KafkaError as error:
        answer.error_code = error.code
    return answer


def _low_watermark(broker: Broker, topic_partition: TopicPartition) -> int:
    partition = broker.partitions.get(topic_partition)
    partition.check_leader()
    assert isinstance(partition.role, Leader)
    return partition.role.in_sync.low_watermark(partition.log.log_start_offset)


def _attempt(
    broker: Broker, response: DeleteRecordsResponse, waiting: _Waiting, time_is_up: bool
) -> DeleteRecordsResponse | None:
    left: _Waiting = []
    for topic_partition, required, answer in waiting:
        try:
            low_watermark = _low_watermark(broker, topic_partition)
        except KafkaError as error:
            answer.error_code, answer.low_watermark = error.code, -1
            continue
        if low_watermark >= required:
            answer.low_watermark = low_watermark
            continue
        left.append((topic_partition, required, answer))
        if time_is_up:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
    waiting[:] = left
    return response if time_is_up or not left else None
