"""Produce (0). Grade D.

Behaviour: each partition is appended on its own; an error in one does not touch the others. acks=1
answers after the local write, acks=-1 once the high watermark has passed the batch, acks=0 never:
there an error closes the connection, because there is no other way to tell.
Versions: 3-11. 0-2 are advertised for the sake of old librdkafka, which takes a minimum of 3 for a
broker that cannot compress (KAFKA-18659), and are refused by closing, as Kafka 4 does.
Differs from Kafka: a transactional id is not verified yet.
"""

from functools import partial
from typing import Final

from ledgerstone.errors import (
    BatchRefused,
    CorruptRecord,
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTopic,
    InvalidTxnState,
    KafkaError,
    KeylessRecord,
    LogStorageError,
    MessageTooLarge,
    OutOfOrderSequence,
    RecordListTooLarge,
    StorageError,
    UnsupportedCompressionType,
)
from ledgerstone.metadata.decision import reason_of
from ledgerstone.metadata.topic_names import ERASURES, INTERNAL_TOPICS
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProducePartitionResponse,
    ProduceRecordError,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
    ProduceTopicResponse,
)
from ledgerstone.protocol.single_produce import SingleProduce, single_produce_answer
from ledgerstone.records.batch import HEADER_SIZE, MAGIC, Codec, read_header
from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Disconnect, Parked, Request
from ledgerstone.storage.log import AppendResult
from ledgerstone.types import TopicPartition, WritableBuffer

_FIRST_VERSION_WITH_ZSTD: Final = 7
_ACKS: Final = (-1, 0, 1)
_MAGIC_POSITION: Final = 16
_RECORDS: Final = (memoryview, bytearray)
# What an append may fail with, and what of it is the fault of the batch.
_FAILURES: Final = (KafkaError, StorageError, OSError)
_FAULTS_OF_BATCH: Final = (
    BatchRefused,
    CorruptRecord,
    MessageTooLarge,
    OutOfOrderSequence,
    RecordListTooLarge,
    UnsupportedCompressionType,
)

# Found only by looking at the partition or into the batch: Kafka then says where the log starts.
_FOUND_LATE: Final = (
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidTimestamp,
    InvalidTxnState,
    KeylessRecord,
    OutOfOrderSequence,
)

# What a partition's high watermark must reach before its answer is true.
_Waiting = dict[TopicPartition, tuple[int, ProducePartitionResponse]]


def handle(broker: Broker, request: Request, message: ProduceRequest | SingleProduce) -> Answer:
    if type(message) is SingleProduce:
        return _handle_single(broker, request, message)
    assert isinstance(message, ProduceRequest)
    waiting: _Waiting = {}
    topics = []
    for topic in message.topic_data:
        answers = [
            _append(broker, request, message, topic, data, waiting) for data in topic.partition_data
        ]
        topics.append(
            ProduceTopicResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    response = ProduceResponse(responses=topics)
    return _answer(broker, message.acks, message.timeout_ms, response, waiting)


def _handle_single(broker: Broker, request: Request, message: SingleProduce) -> Answer:
    """As `handle` does it: one append, and the usual answer without a message being made of it."""
    acks, index = message.acks, message.index
    topic_partition = TopicPartition(message.topic, index)
    waiting: _Waiting = {}
    try:
        result, is_awaited = _append_to(broker, request, topic_partition, message.records, acks)
    except _FAILURES as error:
        answer = _refused(broker, topic_partition, error)
    else:
        if acks and not is_awaited:
            return single_produce_answer(
                request.api_version,
                message.topic,
                index,
                result.first_offset,
                result.log_append_time,
                result.log_start_offset,
            )
        answer = _accepted(index, result)
        if is_awaited:
            waiting[topic_partition] = (result.last_offset + 1, answer)
    topic = ProduceTopicResponse(name=message.topic, partition_responses=[answer])
    response = ProduceResponse(responses=[topic])
    return _answer(broker, acks, message.timeout_ms, response, waiting)


def _answer(
    broker: Broker, acks: int, timeout_ms: int, response: ProduceResponse, waiting: _Waiting
) -> Answer:
    if acks == 0:
        _close_on_error(response)
        return None
    if not waiting:
        return response
    attempt = partial(_attempt, broker, response, waiting)
    deadline_ms = broker.clock.monotonic_ms() + timeout_ms
    return Parked(attempt=attempt, deadline_ms=deadline_ms, keys=tuple(waiting))


def _append(
    broker: Broker,
    request: Request,
    message: ProduceRequest,
    topic: ProduceTopicData,
    data: ProducePartitionData,
    waiting: _Waiting,
) -> ProducePartitionResponse:
    topic_partition = TopicPartition(topic.name, data.index)
    records = data.records
    assert isinstance(records, _RECORDS) or records is None
    try:
        result, is_awaited = _append_to(broker, request, topic_partition, records, message.acks)
    except _FAILURES as error:
        return _refused(broker, topic_partition, error)
    answer = _accepted(data.index, result)
    if is_awaited:
        waiting[topic_partition] = (result.last_offset + 1, answer)
    return answer


def _append_to(
    broker: Broker,
    request: Request,
    topic_partition: TopicPartition,
    records: WritableBuffer | None,
    acks: int,
) -> tuple[AppendResult, bool]:
    """Where the batch is, and whether replicas that must have it do not have it yet."""
    if acks not in _ACKS:
        raise InvalidRequiredAcks(f"acks={acks}, must be -1, 0 or 1")
    topic = topic_partition.topic
    if topic in INTERNAL_TOPICS:
        _check_may_write(topic, request.client_id)
    if request.api_version < _FIRST_VERSION_WITH_ZSTD:
        _check_codec(records)
    partition = broker.partitions.get(topic_partition)
    if records is None:
        records = bytearray()
    result = partition.append(records, acks=acks)
    if not result.duplicate:
        broker.appended(topic_partition, len(records))
        if result.tombstone_count or result.near is not None:
            _notice_deletes(broker, partition, result, records)
    return result, acks == -1 and partition.log.high_watermark <= result.last_offset


def _check_may_write(topic: str, client_id: str | None) -> None:
    """Kafka lets its own tools write to internal topics, known by their client id. Anybody can give
    that id, so what is evidence is the broker's alone."""
    if topic == ERASURES:
        raise InvalidTopic(f"{topic} is the journal of erasures: the broker alone writes to it")
    if client_id != "__admin_client":
        raise InvalidTopic(f"{topic} is internal")


def _notice_deletes(
    broker: Broker, partition: Partition, result: AppendResult, records: WritableBuffer
) -> None:
    """Tombstones have deadlines; what only looks like one, or may be misplaced, is watched."""
    topic_partition, log = partition.topic_partition, partition.log
    watch = broker.near_tombstones
    if result.tombstone_count:
        broker.cleaning.appended(log, result.tombstone_count)
        if log.config.compacts:
            watch.strays.appended(topic_partition, result.first_offset, records)
    if result.near is not None:
        now_ms = broker.clock.now_ms()
        watch.appended(topic_partition, result.first_offset, result.near, now_ms=now_ms)


def _accepted(index: int, result: AppendResult) -> ProducePartitionResponse:
    return ProducePartitionResponse(
        index=index,
        base_offset=result.first_offset,
        log_append_time_ms=result.log_append_time,
        log_start_offset=result.log_start_offset,
    )


def _refused(
    broker: Broker, topic_partition: TopicPartition, error: Exception
) -> ProducePartitionResponse:
    answer = ProducePartitionResponse(index=topic_partition.partition, base_offset=-1)
    if isinstance(error, KafkaError):
        answer.error_code = error.code
        answer.error_message = reason_of(error)
        if isinstance(error, _FOUND_LATE):
            partition = broker.partitions.find(topic_partition)
            answer.log_start_offset = -1 if partition is None else partition.log.log_start_offset
        if isinstance(error, BatchRefused):
            answer.record_errors = [
                ProduceRecordError(batch_index=index, batch_index_error_message=text)
                for index, text in error.record_errors
            ]
        if isinstance(error, _FAULTS_OF_BATCH):
            broker.counters.rejected_batches += 1
            broker.counters.keyless_records_refused += isinstance(error, KeylessRecord)
        if isinstance(error, LogStorageError):
            broker.log_failed(topic_partition, error)
    else:
        broker.log_failed(topic_partition, error)
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    broker.counters.answered_error("Produce", answer.error_code)
    return answer


def _check_codec(records: WritableBuffer | None) -> None:
    """An older request cannot carry zstd, because its reader could not ask for it back."""
    if not records or len(records) < HEADER_SIZE or records[_MAGIC_POSITION] != MAGIC:
        return  # refused for what else it is
    if read_header(records).codec is Codec.ZSTD:
        raise UnsupportedCompressionType("zstd needs Produce version 7 or later")


def _attempt(
    broker: Broker,
    response: ProduceResponse,
    waiting: _Waiting,
    time_is_up: bool,
) -> ProduceResponse | None:
    for topic_partition, (required, answer) in list(waiting.items()):
        try:
            partition = broker.partitions.get(topic_partition)
            partition.check_leader()
        except KafkaError as error:
            answer.error_code = error.code
            broker.counters.answered_error("Produce", error.code)
            del waiting[topic_partition]
            continue
        if partition.log.high_watermark >= required:
            del waiting[topic_partition]
            if len(partition.isr) < partition.effective_min_isr:
                answer.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
                broker.counters.answered_error("Produce", answer.error_code)
        elif time_is_up:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            broker.counters.answered_error("Produce", answer.error_code)
    return response if time_is_up or not waiting else None


def _close_on_error(response: ProduceResponse) -> None:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise Disconnect(
                    f"acks=0 and error {answer.error_code} in {topic.name}-{answer.index}: "
                    f"{answer.error_message}"
                )
