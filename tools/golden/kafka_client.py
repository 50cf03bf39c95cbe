"""The client that writes and reads golden topics: librdkafka, through confluent-kafka.

Shell grade. Writing is deterministic in what matters for the files: one call is one record batch,
and after the end of a transaction we wait for its marker, so offsets repeat from run to run.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exports without __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from golden.kafka_tools import KafkaToolError

TIMEOUT_S = 30.0
TIMESTAMP_TYPES = {1: "CreateTime", 2: "LogAppendTime"}

Headers = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """What is asked to be written."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRecord:
    """What a consumer was given."""

    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPartition:
    """A partition as clients see it while the broker runs."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int  # the high watermark, which is the same with one replica
    last_stable_offset: int
    uncommitted: list[SeenRecord]
    committed: list[SeenRecord]


@dataclass(slots=True)
class BatchWriter:
    """A producer whose every write() becomes exactly one batch of one partition."""

    bootstrap: str
    settings: Mapping[str, str | int | bool] = field(default_factory=dict)
    producer: Producer = field(init=False)
    failures: list[str] = field(default_factory=list)
    known_topics: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                # Nothing leaves before flush(), so a batch is what was queued until then.
                "linger.ms": 60000,
                "batch.size": 900000,
                "log_level": 2,
                **self.settings,
            }
        )

    def write(self, topic: str, records: Iterable[Record], partition: int = 0) -> None:
        for record in records:
            self.producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers) or None,
                timestamp=record.timestamp,
                partition=partition,
                on_delivery=self._delivered,
            )
        if topic not in self.known_topics:
            # Records of a topic whose metadata arrives during the flush may go out one by one.
            self.producer.list_topics(topic, timeout=TIMEOUT_S)
            self.known_topics[topic] = None
        left = self.producer.flush(TIMEOUT_S)
        if left or self.failures:
            raise KafkaToolError(f"{left} records not written to {topic}: {self.failures}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))


@dataclass(slots=True)
class TransactionalWriter(BatchWriter):
    """A BatchWriter with a transactional id; knows when its markers have been written."""

    transactional_id: str = ""
    touched: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings = {
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": 3600000,
            **self.settings,
        }
        BatchWriter.__post_init__(self)
        self.producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self.touched.clear()
        self.producer.begin_transaction()

    def write(self, topic: str, records: Iterable[Record], partition: int = 0) -> None:
        BatchWriter.write(self, topic, records, partition)
        self.touched[topic] = None

    def commit(self) -> None:
        self._end(committing=True)

    def abort(self) -> None:
        self._end(committing=False)

    def _end(self, *, committing: bool) -> None:
        ends = {topic: end_offset(self.bootstrap, topic) for topic in self.touched}
        if committing:
            self.producer.commit_transaction(TIMEOUT_S)
        else:
            self.producer.abort_transaction(TIMEOUT_S)
        for topic, end in ends.items():
            wait_for_end_offset(self.bootstrap, topic, end + 1)


@contextlib.contextmanager
def _consumer(bootstrap: str, isolation: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "golden",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            "log_level": 2,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def end_offset(bootstrap: str, topic: str, partition: int = 0) -> int:
    with _consumer(bootstrap, "read_uncommitted") as consumer:
        return _watermarks(consumer, TopicPartition(topic, partition))[1]


def wait_for_end_offset(bootstrap: str, topic: str, expected: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    with _consumer(bootstrap, "read_uncommitted") as consumer:
        while True:
            end = _watermarks(consumer, TopicPartition(topic, 0))[1]
            if end == expected:
                return
            if end > expected or time.monotonic() > deadline:
                raise KafkaToolError(f"{topic} ends at {end}, expected {expected}")
            time.sleep(0.02)


def _watermarks(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    marks = consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)
    if marks is None:
        raise KafkaToolError(f"no watermarks of {partition}")
    return marks


def see_partition(bootstrap: str, topic: str, partition: int = 0) -> SeenPartition:
    where = TopicPartition(topic, partition)
    with _consumer(bootstrap, "read_uncommitted") as consumer:
        start, end = _watermarks(consumer, where)
        uncommitted = list(_read(consumer, topic, partition, start))
    with _consumer(bootstrap, "read_committed") as consumer:
        committed = list(_read(consumer, topic, partition, start))
    admin = admin_client(bootstrap)
    latest = admin.list_offsets(
        {where: OffsetSpec.latest()},  # type: ignore[no-untyped-call]  # the library has no types
        isolation_level=IsolationLevel.READ_COMMITTED,
    )
    return SeenPartition(
        topic=topic,
        partition=partition,
        log_start_offset=start,
        log_end_offset=end,
        last_stable_offset=latest[where].result(TIMEOUT_S).offset,
        uncommitted=uncommitted,
        committed=committed,
    )


def see_topics(bootstrap: str, topics: Sequence[str]) -> dict[str, SeenPartition]:
    """As see_partition for partition 0 of many topics, with two consumers for all of them."""
    first: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    last: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    starts = list_offsets(bootstrap, dict.fromkeys(topics, first))
    ends = list_offsets(bootstrap, dict.fromkeys(topics, last))
    stable = list_offsets(bootstrap, dict.fromkeys(topics, last), IsolationLevel.READ_COMMITTED)
    begin = {topic: offset for topic, (offset, _) in starts.items()}
    with _consumer(bootstrap, "read_uncommitted") as consumer:
        uncommitted = _read_topics(consumer, begin)
    with _consumer(bootstrap, "read_committed") as consumer:
        committed = _read_topics(consumer, begin)
    return {
        topic: SeenPartition(
            topic=topic,
            partition=0,
            log_start_offset=begin[topic],
            log_end_offset=ends[topic][0],
            last_stable_offset=stable[topic][0],
            uncommitted=uncommitted[topic],
            committed=committed[topic],
        )
        for topic in topics
    }


def list_offsets(
    bootstrap: str,
    specs: Mapping[str, OffsetSpec],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[str, tuple[int, int]]:
    """Offset and timestamp found in partition 0 of each topic."""
    admin = admin_client(bootstrap)
    asked = {TopicPartition(topic, 0): spec for topic, spec in specs.items()}
    answers = admin.list_offsets(asked, isolation_level=isolation)
    found = {where.topic: answer.result(TIMEOUT_S) for where, answer in answers.items()}
    return {topic: (found[topic].offset, found[topic].timestamp) for topic in specs}


def offsets_for_times(bootstrap: str, times: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The first record of each topic that is at least as young; (-1, -1) where none is."""
    specs = {topic: OffsetSpec.for_timestamp(timestamp) for topic, timestamp in times.items()}
    return list_offsets(bootstrap, specs)


def _read_topics(consumer: Consumer, starts: Mapping[str, int]) -> dict[str, list[SeenRecord]]:
    """All records of partition 0 of each topic, from an offset to its end."""
    consumer.assign([TopicPartition(topic, 0, start) for topic, start in starts.items()])
    seen: dict[str, list[SeenRecord]] = {topic: [] for topic in starts}
    at_end: dict[str, None] = {}
    deadline = time.monotonic() + TIMEOUT_S
    while len(at_end) < len(starts):
        if time.monotonic() > deadline:
            raise KafkaToolError(f"no end of {sorted(set(starts) - set(at_end))}")
        for message in consumer.consume(1000, 0.2):
            topic, error = message.topic(), message.error()
            assert topic is not None
            if error is None:
                seen[topic].append(_seen(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end[topic] = None
            else:
                raise KafkaException(error)
    return seen


def _read(consumer: Consumer, topic: str, partition: int, start: int) -> Iterator[SeenRecord]:
    """All records from an offset to the end of the partition."""
    consumer.assign([TopicPartition(topic, partition, start)])
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                return
            raise KafkaException(error)
        yield _seen(message)
    raise KafkaToolError(f"no end of {topic}-{partition} within {TIMEOUT_S} s")


def _seen(message: Message) -> SeenRecord:
    kind, timestamp = message.timestamp()
    offset = message.offset()
    assert offset is not None
    return SeenRecord(
        offset=offset,
        timestamp=timestamp,
        timestamp_type=TIMESTAMP_TYPES[kind],
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=_headers(message),
    )


def _headers(message: Message) -> tuple[tuple[bytes, bytes | None], ...]:
    # Received headers are always a list of pairs; the library's type also covers what is sent.
    pairs = cast("list[tuple[str, str | bytes | None]]", message.headers() or [])
    return tuple((name.encode(), _bytes(value)) for name, value in pairs)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


# --- administration ---------------------------------------------------------------------------


def admin_client(bootstrap: str) -> AdminClient:
    """Keep it in a variable while waiting: its calls fail once it is collected."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def create_topics(bootstrap: str, topics: Mapping[str, Mapping[str, str]]) -> None:
    wanted = [
        NewTopic(name, num_partitions=1, replication_factor=1, config=dict(config))
        for name, config in topics.items()
    ]
    admin = admin_client(bootstrap)
    for created in admin.create_topics(wanted).values():
        created.result(TIMEOUT_S)


def set_topic_config(bootstrap: str, topics: Iterable[str], key: str, value: str) -> None:
    """Sets one key on each topic and leaves the other keys alone."""
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            ],
        )
        for topic in topics
    ]
    admin = admin_client(bootstrap)
    for altered in admin.incremental_alter_configs(resources).values():
        altered.result(TIMEOUT_S)


def topic_config(bootstrap: str, topic: str) -> dict[str, str]:
    """Every key of a topic with its effective value."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = admin_client(bootstrap)
    described = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: str(entry.value) for name, entry in sorted(described.items())}


def delete_records(bootstrap: str, topic: str, before_offset: int) -> None:
    where = TopicPartition(topic, 0, before_offset)
    admin = admin_client(bootstrap)
    for deleted in admin.delete_records([where]).values():
        deleted.result(TIMEOUT_S)
