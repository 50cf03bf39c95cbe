"""Fetch (1). Grade D.

Behaviour: partitions are read in the order asked for; the first with data always gives at least one
whole batch, later ones obey what is left of the limits. Answers at once with enough bytes, an
error or no time to wait; else parks until a partition grows or max_wait passes. Records leave as
slices of files. Sessions (KIP-227) are kept; leader epochs and diverging epochs are checked.
Followers replicate with it (`fetch_reading`). With NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH
the answer names the leader (KIP-951).
An answer without records says so with an empty set, never with null: librdkafka takes null for a
broken answer and asks again without a pause. With an error every offset is -1, as in Kafka. What a
quota holds back leaves later: the answer is empty then, and names the throttle time.
Versions: 4-18, topic ids from 13.
Differs from Kafka: a slice ends with a whole batch.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ledgerstone.errors import KafkaError
from ledgerstone.fs import FileSlice
from ledgerstone.protocol.codec import encode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch import (
    FetchCurrentLeader,
    FetchNodeEndpoint,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from ledgerstone.protocol.pieces import total_size
from ledgerstone.replication.fetch_session import FetchContext, FetchWish, PartitionKey, Told
from ledgerstone.replication.fetching.wire import leader_word
from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.current_leader import current_leader
from ledgerstone.server.handlers.fetch_reading import (
    ISOLATION_LEVELS,
    Found,
    Reader,
    empty_answer,
    has_news,
    must_tell,
    name_of,
    read_all,
    reader_of,
    without_quiet,
)
from ledgerstone.server.metrics import add
from ledgerstone.server.request import (
    Answer,
    Encoded,
    InnerRequest,
    Parked,
    Request,
    outermost,
)
from ledgerstone.types import TopicPartition

_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_FIRST_VERSION_WITH_LEADER: Final = 16
_LAST_VERSION_WITHOUT_STORAGE_ERROR: Final = 5
# Kafka's quota counts the size in front of an answer, but not its header.
_SIZE_BYTES: Final = 4
_NAMES_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

Answers = list[tuple[FetchWish, FetchPartitionResponse]]


def handle(broker: Broker, request: Request, message: FetchRequest) -> Answer:
    if message.isolation_level not in ISOLATION_LEVELS:
        return _not_understood(request, message)
    reader = reader_of(broker, request, message)
    try:
        context = _resolve(broker, request, message, reader)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    if reader.is_follower:
        # Replication has throttles of its own.
        outermost(request).is_charged = True
    elif broker.quotas.counts_fetches:
        most = broker.quotas.most_fetched(request)
        if most < message.max_bytes:
            message.max_bytes = most
            message.min_bytes = min(message.min_bytes, most)
    wishes: Sequence[FetchWish] = context.wishes
    if context.incremental:
        wishes = without_quiet(broker, reader, wishes)
    found = read_all(broker, reader, message, wishes, is_first_time=True)
    is_enough = found.is_urgent or found.size >= message.min_bytes
    if is_enough or not context.wishes or message.max_wait_ms <= 0:
        return _respond(broker, request, reader, context, found)
    # All that is wanted is in the context: the request would hold it a second time while it waits.
    message.topics, message.forgotten_topics_data = [], []
    waiting = _WaitingFetch(broker, request, reader, message, context, found)
    if found.has_committed and (response := waiting.look_again()) is not None:
        return response
    return Parked(
        attempt=waiting.attempt,
        deadline_ms=broker.clock.monotonic_ms() + message.max_wait_ms,
        keys=waiting.keys,
        woken=waiting.woken,
    )


class _WaitingFetch:
    """A fetch that waits reads again only what has changed meanwhile. Only an answer that names
    every partition needs them all, and they are read once there seems to be enough for it: whoever
    produces would pay for thousands of reads with each batch."""

    __slots__ = (
        "_broker",
        "_context",
        "_message",
        "_news",
        "_reader",
        "_request",
        "_size",
        "_sizes",
        "_touched",
        "_wishes",
    )

    def __init__(
        self,
        broker: Broker,
        request: Request,
        reader: Reader,
        message: FetchRequest,
        context: FetchContext,
        found: Found,
    ) -> None:
        self._broker, self._request, self._reader = broker, request, reader
        self._message, self._context = message, context
        self._wishes = {
            name: wish for wish in context.wishes if (name := name_of(broker, wish.key)) is not None
        }
        self._touched: set[PartitionKey] | None = None
        if context.incremental:
            self._touched = {
                wish.key for wish, answer in found.answers if context.is_news(_told(wish, answer))
            }
        # What was to be had of each partition when it was looked at last, and of all together.
        self._size, self._sizes = found.size, dict[PartitionKey, int]()
        if not context.incremental:
            self._sizes = {wish.key: _size_of(answer) for wish, answer in found.answers}
        self._news: dict[PartitionKey, FetchWish] = {}

    @property
    def keys(self) -> Iterable[TopicPartition]:
        return self._wishes

    def woken(self, topic_partition: TopicPartition) -> bool:
        wish = self._wishes[topic_partition]
        if self._touched is not None:
            self._touched.add(wish.key)
        else:
            self._news[wish.key] = wish
        return has_news(self._reader, self._broker.partitions.find(topic_partition), wish)

    def look_again(self) -> FetchResponse | Encoded | None:
        """What the first look has committed may have made coordinators append, behind its back."""
        find = self._broker.partitions.find
        news = [
            name for name, wish in self._wishes.items() if has_news(self._reader, find(name), wish)
        ]
        for name in news:
            self.woken(name)
        return self.attempt(time_is_up=False) if news else None

    def attempt(self, time_is_up: bool) -> FetchResponse | Encoded | None:
        broker, context, touched = self._broker, self._context, self._touched
        wishes = context.wishes
        if touched is None and not time_is_up and not self._may_be_enough():
            return None
        if touched is not None:
            wishes = [wish for wish in wishes if wish.key in touched]
        found = read_all(broker, self._reader, self._message, wishes, is_first_time=False)
        is_enough = found.is_urgent or found.size >= self._message.min_bytes
        if time_is_up or is_enough:
            return _respond(broker, self._request, self._reader, context, found)
        return None

    def _may_be_enough(self) -> bool:
        """Each by itself gives no less than it gives beside the others."""
        news, self._news = self._news, {}
        found = read_all(
            self._broker, self._reader, self._message, news.values(), is_first_time=False
        )
        for wish, answer in found.answers:
            size = _size_of(answer)
            self._size += size - self._sizes.get(wish.key, 0)
            self._sizes[wish.key] = size
        return found.is_urgent or self._size >= self._message.min_bytes


def _size_of(answer: FetchPartitionResponse) -> int:
    return answer.records.size if isinstance(answer.records, FileSlice) else 0


def _resolve(
    broker: Broker, request: Request, message: FetchRequest, reader: Reader
) -> FetchContext:
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
                asked.log_start_offset,
                clean_to=asked.clean_to,
                removed_to=asked.removed_to,
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
        is_privileged=reader.is_follower and not reader.is_impostor,
        now_ms=broker.clock.monotonic_ms(),
    )


def _not_understood(request: Request, message: FetchRequest) -> FetchResponse:
    """As Kafka answers what it cannot read: with topic ids for the whole, before for each."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    response = FetchResponse(error_code=code)
    for topic in () if request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS else message.topics:
        answers = [empty_answer(asked.partition, code) for asked in topic.partitions]
        for answer in answers:
            answer.aborted_transactions = []
        response.responses.append(FetchTopicResponse(topic=topic.topic, partitions=answers))
    return response


def _respond(
    broker: Broker, request: Request, reader: Reader, context: FetchContext, found: Found
) -> FetchResponse | Encoded:
    response, answers = FetchResponse(session_id=context.session_id), found.answers
    if found.is_urgent:
        _say_what_is_wrong(broker, request, reader, answers, response)
    told: list[Told] = []
    is_counted = broker.quotas.counts_fetches and not reader.is_follower
    if context.session is not None:
        told = [_told(wish, answer) for wish, answer in answers]
        # What is held back for a quota was not told.
        news = [one.key for one in told if context.is_news(one)] if is_counted else None
        named = set(context.answer(told) if news is None else news)
        answers = [(wish, answer) for wish, answer in answers if wish.key in named]
    _add_topics(response, answers)
    if not is_counted:
        _count_all(broker, reader, answers)
        return response
    body = encode_response(response, request.api_version)
    size = total_size(body)
    now_ms = broker.clock.monotonic_ms()
    throttle_ms = broker.quotas.fetched(request, _SIZE_BYTES + size, now_ms)
    if throttle_ms:
        return _held_back(broker, context, throttle_ms)
    if told:
        context.answer(told)
    _count_all(broker, reader, answers)
    # What was taken away of a request has to be added to its answer yet.
    return response if isinstance(request, InnerRequest) else Encoded(body, size)


def _say_what_is_wrong(
    broker: Broker, request: Request, reader: Reader, answers: Answers, response: FetchResponse
) -> None:
    if request.api_version <= _LAST_VERSION_WITHOUT_STORAGE_ERROR:
        for _, answer in answers:
            if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                # Old readers take an unknown code for fatal; with this one they look elsewhere.
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif request.api_version >= _FIRST_VERSION_WITH_LEADER:
        _name_leaders(broker, reader, answers, response)


def _held_back(broker: Broker, context: FetchContext, throttle_ms: int) -> FetchResponse:
    """Nothing now. A session goes on, and will tell it all later; one that was to begin does not,
    since its client has not been told what is in it."""
    response = FetchResponse(throttle_time_ms=throttle_ms)
    if context.incremental:
        response.session_id = context.session_id
    else:
        broker.fetch_sessions.close(context.session_id)
    return response


def _add_topics(response: FetchResponse, answers: Answers) -> None:
    topics: dict[str | bytes, FetchTopicResponse] = {}
    for wish, answer in answers:
        key = wish.key
        topic = topics.get(key.topic)
        if topic is None:
            topic = topics[key.topic] = FetchTopicResponse()
            if isinstance(key.topic, str):
                topic.topic = key.topic
            else:
                topic.topic_id = key.topic
            response.responses.append(topic)
        topic.partitions.append(answer)


def _count_all(broker: Broker, reader: Reader, answers: Answers) -> None:
    for wish, answer in answers:
        if answer.error_code:
            broker.counters.answered_error("Fetch", answer.error_code)
        elif isinstance(answer.records, FileSlice):
            _count_out(broker, reader, wish, answer.records)


def _name_leaders(
    broker: Broker, reader: Reader, answers: Answers, response: FetchResponse
) -> None:
    """Followers get no addresses, as in Kafka: they go by their metadata."""
    endpoints: dict[int, FetchNodeEndpoint] = {}
    for wish, answer in answers:
        if not answer.error_code or answer.error_code not in _NAMES_LEADER:
            continue
        topic_partition = name_of(broker, wish.key)
        if topic_partition is None:
            continue
        found = current_leader(broker, topic_partition, reader.listener)
        answer.current_leader = FetchCurrentLeader(found.leader_id, found.leader_epoch)
        if found.address is not None and not reader.is_follower:
            endpoints[found.leader_id] = FetchNodeEndpoint(*found.address)
    response.node_endpoints = list(endpoints.values())


def _count_out(broker: Broker, reader: Reader, wish: FetchWish, records: FileSlice) -> None:
    partition = wish.found
    # Records were read from it just now.
    assert isinstance(partition, Partition)
    topic_partition = partition.topic_partition
    if not reader.is_follower:
        add(broker.counters.bytes_out, topic_partition.topic, records.size)
        return
    broker.counters.replication_bytes_out += records.size
    if broker.isr.throttle.is_active:
        now_ms = broker.clock.monotonic_ms()
        broker.isr.throttle.record(topic_partition, records.size, now_ms)


def _told(wish: FetchWish, answer: FetchPartitionResponse) -> Told:
    return Told(
        wish.key,
        bool(answer.records),
        answer.error_code,
        answer.high_watermark,
        answer.log_start_offset,
        must_tell=must_tell(answer),
        word=leader_word(answer),
    )
