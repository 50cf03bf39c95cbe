"""Fetch (1). Grade D.

Behaviour: partitions are read in the order asked for; the first with data always gives at least one
whole batch, later ones obey what is left of the limits. Answers at once with enough bytes, an
error or no time to wait; else parks until a partition grows or max_wait passes. Records leave as
slices of files. Sessions (KIP-227) are kept; leader epochs and diverging epochs are checked.
An answer without records says so with an empty set, never with null: librdkafka takes null for a
broken answer and asks again without a pause. With an error every offset is -1, as in Kafka.
Versions: 4-18, topic ids from 13.
Differs from Kafka: a slice ends with a whole batch; no replica is preferred over the leader.
"""

from functools import partial
from typing import Final, NamedTuple

from ledgerstone.errors import (
    KafkaError,
    OffsetOutOfRange,
    StorageError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ledgerstone.fs import FileSlice
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch import (
    FetchAbortedTransaction,
    FetchDivergingEpoch,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from ledgerstone.replication.fetch_session import FetchContext, FetchWish, PartitionKey, Told
from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.metrics import add
from ledgerstone.server.request import Answer, Parked, Request
from ledgerstone.storage.log_reader import FetchIsolation, read
from ledgerstone.types import TopicPartition

_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_ISOLATION_LEVELS: Final = {0: FetchIsolation.HIGH_WATERMARK, 1: FetchIsolation.TXN_COMMITTED}
# Kafka finds these out before it reads, and says "no aborted transactions" instead of nothing.
_UNKNOWN: Final = (UnknownTopicOrPartition, UnknownTopicId)


class _Found(NamedTuple):
    answers: list[tuple[PartitionKey, FetchPartitionResponse]]
    size: int
    is_urgent: bool  # an error, or an epoch that diverges: not to be waited with


def handle(broker: Broker, request: Request, message: FetchRequest) -> Answer:
    if message.isolation_level not in _ISOLATION_LEVELS:
        return _not_understood(request, message)
    try:
        context = _resolve(broker, request, message)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    found = _read_all(broker, message, context)
    is_enough = found.is_urgent or found.size >= message.min_bytes
    if is_enough or not context.wishes or message.max_wait_ms <= 0:
        return _respond(broker, context, found.answers)
    # All that is wanted is in the context: the request would hold it a second time while it waits.
    message.topics, message.forgotten_topics_data = [], []
    keys = [key for wish in context.wishes if (key := _named(broker, wish.key)) is not None]
    return Parked(
        attempt=partial(_attempt, broker, message, context),
        deadline_ms=broker.clock.monotonic_ms() + message.max_wait_ms,
        keys=tuple(dict.fromkeys(keys)),
    )


def _attempt(
    broker: Broker, message: FetchRequest, context: FetchContext, time_is_up: bool
) -> FetchResponse | None:
    found = _read_all(broker, message, context)
    if time_is_up or found.is_urgent or found.size >= message.min_bytes:
        return _respond(broker, context, found.answers)
    return None


def _resolve(broker: Broker, request: Request, message: FetchRequest) -> FetchContext:
    by_id = request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    wishes: dict[PartitionKey, FetchWish] = {}
    for topic in message.topics:
        for asked in topic.partitions:
            key = PartitionKey(topic.topic_id if by_id else topic.topic, asked.partition)
            # Of a partition named twice the last wish holds, as in Kafka.
            wishes[key] = FetchWish(
                key,
                asked.fetch_offset,
                asked.partition_max_bytes,
                asked.current_leader_epoch,
                asked.last_fetched_epoch,
            )
    forgotten = [
        PartitionKey(topic.topic_id if by_id else topic.topic, number)
        for topic in message.forgotten_topics_data
        for number in topic.partitions
    ]
    return broker.fetch_sessions.resolve(
        session_id=message.session_id,
        epoch=message.session_epoch,
        wishes=list(wishes.values()),
        forgotten=forgotten,
        uses_topic_ids=by_id,
        now_ms=broker.clock.monotonic_ms(),
    )


def _named(broker: Broker, key: PartitionKey) -> TopicPartition | None:
    if isinstance(key.topic, str):
        return TopicPartition(key.topic, key.partition)
    name = broker.topic_name(key.topic)
    return None if name is None else TopicPartition(name, key.partition)


def _read_all(broker: Broker, message: FetchRequest, context: FetchContext) -> _Found:
    isolation = _ISOLATION_LEVELS[message.isolation_level]
    left = min(message.max_bytes, broker.config.fetch_max_bytes)
    total = 0
    is_urgent = False
    answers = []
    for wish in context.wishes:
        answer = _empty(wish.key.partition)
        size = 0
        try:
            size = _read_one(broker, wish, answer, isolation, left, first=total == 0)
        except KafkaError as error:
            answer = _empty(wish.key.partition, error.code)
            if isinstance(error, _UNKNOWN):
                answer.aborted_transactions = []
        except (OSError, StorageError) as error:
            broker.log_failed(_named(broker, wish.key), error)
            answer = _empty(wish.key.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        if answer.error_code or answer.diverging_epoch is not None:
            is_urgent = True
        total += size
        left = max(0, left - size)
        answers.append((wish.key, answer))
    return _Found(answers, total, is_urgent)


def _empty(number: int, error_code: int = 0) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        partition_index=number, error_code=error_code, high_watermark=-1, records=b""
    )


def _not_understood(request: Request, message: FetchRequest) -> FetchResponse:
    """As Kafka answers what it cannot read: with topic ids for the whole, before for each."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    response = FetchResponse(error_code=code)
    for topic in () if request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS else message.topics:
        answers = [_empty(asked.partition, code) for asked in topic.partitions]
        for answer in answers:
            answer.aborted_transactions = []
        response.responses.append(FetchTopicResponse(topic=topic.topic, partitions=answers))
    return response


def _read_one(
    broker: Broker,
    wish: FetchWish,
    answer: FetchPartitionResponse,
    isolation: FetchIsolation,
    left: int,
    *,
    first: bool,
) -> int:
    partition = broker.partition_of(wish.key.topic, wish.key.partition)
    partition.check_leader(wish.current_leader_epoch)
    log = partition.log
    answer.log_start_offset = log.log_start_offset
    answer.high_watermark = log.high_watermark
    answer.last_stable_offset = log.last_stable_offset
    diverging = _diverging_epoch(partition, wish)
    if diverging is not None:
        answer.diverging_epoch = diverging
        return 0
    result = read(
        log,
        wish.fetch_offset,
        max_bytes=min(wish.max_bytes, left),
        isolation=isolation,
        min_one_batch=first,
    )
    size = 0 if result.slice is None else result.slice.size
    answer.records = result.slice if size else b""
    if isolation is FetchIsolation.TXN_COMMITTED:
        answer.aborted_transactions = [
            FetchAbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset in result.aborted
        ]
    return size


def _diverging_epoch(partition: Partition, wish: FetchWish) -> FetchDivergingEpoch | None:
    """Where the reader's log and ours parted, if its last epoch ended elsewhere here."""
    if wish.last_fetched_epoch < 0:
        return None
    log = partition.log
    if wish.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(f"{wish.fetch_offset} lies below {log.log_start_offset}")
    epoch, end_offset = log.epochs.end_offset_for(wish.last_fetched_epoch, log.log_end_offset)
    if end_offset < 0:
        raise OffsetOutOfRange(f"leader epoch {wish.last_fetched_epoch} is not known here")
    if epoch < wish.last_fetched_epoch or end_offset < wish.fetch_offset:
        return FetchDivergingEpoch(epoch=epoch, end_offset=end_offset)
    return None


def _respond(
    broker: Broker,
    context: FetchContext,
    answers: list[tuple[PartitionKey, FetchPartitionResponse]],
) -> FetchResponse:
    if context.session is not None:
        told = [_told(key, answer) for key, answer in answers]
        named = set(context.answer(told))
        answers = [(key, answer) for key, answer in answers if key in named]
    response = FetchResponse(session_id=context.session_id)
    topics: dict[str | bytes, FetchTopicResponse] = {}
    for key, answer in answers:
        topic = topics.get(key.topic)
        if topic is None:
            topic = topics[key.topic] = FetchTopicResponse()
            if isinstance(key.topic, str):
                topic.topic = key.topic
            else:
                topic.topic_id = key.topic
            response.responses.append(topic)
        topic.partitions.append(answer)
        if answer.error_code:
            broker.counters.answered_error("Fetch", answer.error_code)
        elif isinstance(answer.records, FileSlice):
            _count_out(broker, key, answer.records)
    return response


def _count_out(broker: Broker, key: PartitionKey, records: FileSlice) -> None:
    name = key.topic if isinstance(key.topic, str) else broker.topic_name(key.topic)
    if name is not None:
        add(broker.counters.bytes_out, name, records.size)


def _told(key: PartitionKey, answer: FetchPartitionResponse) -> Told:
    return Told(
        key,
        bool(answer.records),
        answer.error_code,
        answer.high_watermark,
        answer.log_start_offset,
        must_tell=answer.diverging_epoch is not None,
    )
