"""ListOffsets (2). Grade D.

Behaviour: -1 latest (the last stable offset for read_committed), -2 earliest, -3 the record with
the largest timestamp, -4 earliest local (the same here), -5 latest tiered and -6 earliest still to
be tiered (none here); else the first offset whose timestamp is at least the one asked for, or -1. A
negative timestamp that means nothing in the request's version gets UNSUPPORTED_VERSION; a partition
named more than once gets INVALID_REQUEST. A new leader whose high watermark has not reached the
start of its epoch does not know yet what is committed: OFFSET_NOT_AVAILABLE. Replicas are told of
what is not committed, too.
Versions: 1-11.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ledgerstone.errors import KafkaError, OffsetNotAvailable, StorageError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from ledgerstone.replication.leader import Leader
from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.storage.log_reader import offset_for_timestamp, offset_of_max_timestamp
from ledgerstone.types import (
    INT32_MAX,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP,
    TopicPartition,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_DEBUGGER: Final = -2  # May ask followers.
_FIRST_VERSION_WITH_NOT_AVAILABLE: Final = 5
# The first version in which each of them may be asked.
_ASKED_FROM: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


def handle(broker: Broker, request: Request, message: ListOffsetsRequest) -> Answer:
    # Kafka refuses these too; each would cost a search, and a request has room for very many.
    times = Counter(
        (topic.name, asked.partition_index)
        for topic in message.topics
        for asked in topic.partitions
    )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[
                    _answer(broker, request, message, topic.name, asked)
                    if times[topic.name, asked.partition_index] == 1
                    else _refused(asked, ErrorCode.INVALID_REQUEST)
                    for asked in _each_once(topic.partitions)
                ],
            )
            for topic in message.topics
        ]
    )


def _each_once(
    asked: Sequence[ListOffsetsRequestPartition],
) -> Iterable[ListOffsetsRequestPartition]:
    return {each.partition_index: each for each in asked}.values()


def _refused(asked: ListOffsetsRequestPartition, code: ErrorCode) -> ListOffsetsResponsePartition:
    return ListOffsetsResponsePartition(partition_index=asked.partition_index, error_code=code)


def _answer(
    broker: Broker,
    request: Request,
    message: ListOffsetsRequest,
    topic: str,
    asked: ListOffsetsRequestPartition,
) -> ListOffsetsResponsePartition:
    answer = ListOffsetsResponsePartition(partition_index=asked.partition_index)
    if asked.timestamp < 0 and request.api_version < _ASKED_FROM.get(asked.timestamp, INT32_MAX):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return answer
    try:
        partition = broker.partitions.get(TopicPartition(topic, asked.partition_index))
        if message.replica_id == _DEBUGGER:
            partition.check_epoch(asked.current_leader_epoch)
        else:
            partition.check_leader(asked.current_leader_epoch)
        answer.timestamp, answer.offset = _find(partition, asked.timestamp, message)
    except OffsetNotAvailable as error:
        is_known = request.api_version >= _FIRST_VERSION_WITH_NOT_AVAILABLE
        answer.error_code = error.code if is_known else ErrorCode.LEADER_NOT_AVAILABLE
        return answer
    except KafkaError as error:
        answer.error_code = error.code
        return answer
    except (OSError, StorageError) as error:
        broker.log_failed(TopicPartition(topic, asked.partition_index), error)
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    epoch = partition.log.epochs.epoch_for_offset(answer.offset) if answer.offset >= 0 else None
    if asked.timestamp == LATEST:
        epoch = partition.leader_epoch
    answer.leader_epoch = NO_LEADER_EPOCH if epoch is None else epoch
    return answer


def _find(partition: Partition, timestamp: int, message: ListOffsetsRequest) -> tuple[int, int]:
    log = partition.log
    if timestamp == LATEST:
        _check_settled(partition, message)
        return NO_TIMESTAMP, _end_for(partition, message)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return NO_TIMESTAMP, log.log_start_offset
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NO_TIMESTAMP, NO_OFFSET
    if timestamp == MAX_TIMESTAMP:
        found = offset_of_max_timestamp(log)
    else:
        found = offset_for_timestamp(log, timestamp)
    if found is None:
        return NO_TIMESTAMP, NO_OFFSET
    if found.offset >= _end_for(partition, message):
        _check_settled(partition, message)
        return NO_TIMESTAMP, NO_OFFSET
    return found.timestamp, found.offset


def _end_for(partition: Partition, message: ListOffsetsRequest) -> int:
    log = partition.log
    if message.replica_id != _CONSUMER:
        return log.log_end_offset
    if message.isolation_level == _READ_COMMITTED:
        return log.last_stable_offset
    return log.high_watermark


def _check_settled(partition: Partition, message: ListOffsetsRequest) -> None:
    role = partition.role
    if message.replica_id == _CONSUMER and isinstance(role, Leader) and not role.is_settled:
        raise OffsetNotAvailable(
            f"the high watermark {partition.log.high_watermark} of {partition.topic_partition} is "
            f"below the start {role.epoch_start_offset} of its leader epoch"
        )
