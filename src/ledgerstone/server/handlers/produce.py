"""Produce (0). Grade D.

Behaviour: each partition is appended on its own; an error in one does not touch the others. acks=1
answers after the local write, acks=-1 once the high watermark has passed the batch, acks=0 never:
there an error closes the connection, because there is no other way to tell.
Transactional batches need a transactional id, and all the same producer. Before the first of a
transaction is written to a partition, its coordinator is asked: up to version 11 whether the client
has added the partition, from 12 on to add it (KIP-890).
Versions: 3-13, topic ids from 13. 0-2 are advertised for the sake of old librdkafka, which takes a
minimum of 3 for a broker that cannot compress (KAFKA-18659), and are refused by closing, as Kafka 4
does.
"""

from functools import partial
from typing import Final

from ledgerstone.errors import InvalidRequiredAcks, InvalidTopic, UnsupportedCompressionType
from ledgerstone.metadata.topic_names import EVIDENCE, INTERNAL_TOPICS
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
    ProduceTopicResponse,
)
from ledgerstone.protocol.single_produce import SingleProduce, single_produce_answer
from ledgerstone.records.batch import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    Codec,
    is_transactional_batch,
    read_header,
)
from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.produce_answers import (
    FAILURES,
    Awaited,
    Waiting,
    accepted,
    answered,
    refused,
    refused_whole,
    unknown_topic_id,
    unverified,
)
from ledgerstone.server.request import Answer, Disconnect, Request
from ledgerstone.server.verification import TxnQuestion, TxnSupport, Verified
from ledgerstone.server.waiting_answer import WaitingAnswer
from ledgerstone.storage.log import AppendResult
from ledgerstone.storage.verification import TxnTerms
from ledgerstone.types import TopicPartition, WritableBuffer

_FIRST_VERSION_WITH_ZSTD: Final = 7
_FIRST_VERSION_WITH_ABORTABLE: Final = 11
_FIRST_VERSION_THAT_ADDS: Final = 12
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_ACKS: Final = (-1, 0, 1)
_RECORDS: Final = (memoryview, bytearray)


def handle(broker: Broker, request: Request, message: ProduceRequest | SingleProduce) -> Answer:
    if type(message) is SingleProduce:
        return _handle_single(broker, request, message)
    assert isinstance(message, ProduceRequest)
    if request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        for topic in message.topic_data:
            topic.name = broker.topic_name(topic.topic_id) or ""
    if any(transactional(message)):
        return _handle_transactional(broker, request, message)
    return _append_all(broker, request, message)


def _handle_single(broker: Broker, request: Request, message: SingleProduce) -> Answer:
    """As `handle` does it: one append, and the usual answer without a message being made of it."""
    acks, index, records = message.acks, message.index, message.records
    topic = broker.topic_name(message.topic_id) if message.topic_id else message.topic
    if topic is None or is_transactional_batch(records):
        return handle(broker, request, as_request(message))
    topic_partition = TopicPartition(topic, index)
    waiting: Waiting = []
    try:
        result, awaited = _append_to(broker, request, topic_partition, records, acks)
    except FAILURES as error:
        answer = refused(broker, topic_partition, error)
    else:
        if acks and awaited is None:
            return single_produce_answer(
                request.api_version,
                message.topic_id or topic,
                index,
                result.first_offset,
                result.log_append_time,
                result.log_start_offset,
            )
        answer = accepted(index, result)
        if awaited is not None:
            waiting.append(Awaited(awaited, result.last_offset + 1, answer))
    whole = ProduceTopicResponse(
        name=topic, topic_id=message.topic_id, partition_responses=[answer]
    )
    response = ProduceResponse(responses=[whole])
    return answered(broker, request, acks, message.timeout_ms, response, waiting)


def as_request(message: SingleProduce) -> ProduceRequest:
    data = ProducePartitionData(index=message.index, records=message.records)
    topic = ProduceTopicData(name=message.topic, topic_id=message.topic_id, partition_data=[data])
    return ProduceRequest(acks=message.acks, timeout_ms=message.timeout_ms, topic_data=[topic])


# -- transactions -----------------------------------------------------------------------------


def transactional(message: ProduceRequest) -> "list[tuple[TopicPartition, WritableBuffer]]":
    return [
        (TopicPartition(topic.name, data.index), data.records)
        for topic in message.topic_data
        for data in topic.partition_data
        if isinstance(data.records, _RECORDS) and is_transactional_batch(data.records)
    ]


def _handle_transactional(broker: Broker, request: Request, message: ProduceRequest) -> Answer:
    if message.transactional_id is None:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return refused_whole(broker, request, message, code)
    producers: dict[tuple[int, int], None] = {}
    sequences: dict[TopicPartition, int] = {}
    for topic_partition, records in transactional(message):
        if topic_partition.partition not in broker.image.partition_numbers(topic_partition.topic):
            continue  # refused for that
        header = read_header(records)
        if header.has_producer_id:
            producers[header.producer_id, header.producer_epoch] = None
            sequences[topic_partition] = header.base_sequence
    if not producers:
        return _append_all(broker, request, message)
    if len(producers) > 1:
        return refused_whole(
            broker,
            request,
            message,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "the request holds batches of more than one transactional producer",
        )
    ((producer_id, producer_epoch),) = producers
    support = _support(request.api_version)
    question = TxnQuestion(
        message.transactional_id, producer_id, producer_epoch, sequences, support
    )
    waiting = WaitingAnswer(broker, request)

    def verified(verified: Verified) -> None:
        if waiting.is_left and not broker.is_awaited(request):
            return  # its client is gone, and its frame with it
        try:
            waiting.answer(_append_all(broker, request, message, verified))
        except Disconnect as error:
            waiting.answer(error)

    adds = support is TxnSupport.ADDS_PARTITIONS
    broker.verification.verify(question, verified, retries=adds)
    answer = waiting.now_or_later()
    if waiting.is_left:
        _own_records(message)
    return answer


def _support(api_version: int) -> TxnSupport:
    if api_version >= _FIRST_VERSION_THAT_ADDS:
        return TxnSupport.ADDS_PARTITIONS
    if api_version >= _FIRST_VERSION_WITH_ABORTABLE:
        return TxnSupport.ABORTABLE_ERRORS
    return TxnSupport.OLD_ERRORS


def _own_records(message: ProduceRequest) -> None:
    """The memory that a request is received in is used again before this one is appended."""
    for topic in message.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                data.records = bytearray(data.records)


# -- appending --------------------------------------------------------------------------------


def _append_all(
    broker: Broker, request: Request, message: ProduceRequest, verified: Verified | None = None
) -> Answer:
    waiting: Waiting = []
    append = partial(_append, broker, request, message, verified, waiting)
    topics = [
        ProduceTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[append(topic, data) for data in topic.partition_data],
        )
        for topic in message.topic_data
    ]
    response = ProduceResponse(responses=topics)
    return answered(broker, request, message.acks, message.timeout_ms, response, waiting)


def _append(
    broker: Broker,
    request: Request,
    message: ProduceRequest,
    verified: Verified | None,
    waiting: Waiting,
    topic: ProduceTopicData,
    data: ProducePartitionData,
) -> ProducePartitionResponse:
    if not topic.name and request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        return unknown_topic_id(broker, topic.topic_id, data.index)
    topic_partition = TopicPartition(topic.name, data.index)
    terms = None
    if verified is not None:
        code = verified.errors.get(topic_partition)
        if code is not None:
            return unverified(broker, data.index, code, request.api_version)
        terms = verified.terms_for(topic_partition)
    records = data.records
    assert isinstance(records, _RECORDS) or records is None
    try:
        result, awaited = _append_to(broker, request, topic_partition, records, message.acks, terms)
    except FAILURES as error:
        return refused(broker, topic_partition, error)
    answer = accepted(data.index, result)
    if awaited is not None:
        waiting.append(Awaited(awaited, result.last_offset + 1, answer))
    return answer


def _append_to(
    broker: Broker,
    request: Request,
    topic_partition: TopicPartition,
    records: WritableBuffer | None,
    acks: int,
    terms: TxnTerms | None = None,
) -> tuple[AppendResult, Partition | None]:
    """Where the batch is; and the partition, if replicas that must have it do not have it yet."""
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
    result = partition.append(records, acks=acks, terms=terms)
    if not result.duplicate:
        broker.appended(topic_partition, len(records))
        if result.tombstone_count or result.near is not None:
            _notice_deletes(broker, partition, result, records)
    is_awaited = acks == -1 and partition.log.high_watermark <= result.last_offset
    return result, partition if is_awaited else None


def _check_may_write(topic: str, client_id: str | None) -> None:
    """Kafka lets its own tools write to internal topics, known by their client id. Anybody can give
    that id, so what is evidence is the broker's alone."""
    if topic in EVIDENCE:
        raise InvalidTopic(f"{topic} is {EVIDENCE[topic]}: the broker alone writes to it")
    if client_id != "__admin_client":
        raise InvalidTopic(f"{topic} is internal")


def _check_codec(records: WritableBuffer | None) -> None:
    """An older request cannot carry zstd, because its reader could not ask for it back."""
    if not records or len(records) < HEADER_SIZE or records[MAGIC_POSITION] != MAGIC:
        return  # refused for what else it is
    if read_header(records).codec is Codec.ZSTD:
        raise UnsupportedCompressionType("zstd needs Produce version 7 or later")


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
