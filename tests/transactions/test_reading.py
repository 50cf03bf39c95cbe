"""Committed reads of logs that librdkafka's transactional producers wrote, by all our readers.

The oracle is a consumer that we did not write: librdkafka's, and on Apache Kafka the Java one too.
The logs hold interleaved producers, each with a codec of its own, and transactions that are
committed, aborted and still open. Readers begin at every offset and get a batch at a time, so that
aborted transactions reach over the ends of every answer.
"""

import random
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import Producer as RdProducer
from confluent_kafka import TopicPartition as RdPartition

from golden.kafka_tools import fetch_jars
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.consumer import Consumer
from ledgerstone.client.fetcher import READ_COMMITTED, READ_UNCOMMITTED, FetchConfig, Fetcher
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.client.offsets import LATEST
from ledgerstone.pipeline.connecting import log_ends
from ledgerstone.spark import fetching
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.gaps import GapReason, gaps_in
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.positions import offsets_at
from ledgerstone.spark.read_options import FoldMode, RowOptions, Rows
from ledgerstone.spark.schema import projection, schema_of
from ledgerstone.spark.windows import FetchWindow, record_batches
from ledgerstone.state.rebuild import rebuild
from ledgerstone.types import TopicPartition
from tests.kit.broker import wait_until
from tests.transactions.conftest import MakeTopic, NewName, connected
from tests.transactions.kit import ends

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
STEPS = 100
KEYS = 9
# One batch for each answer: brokers send a first batch however large it is.
ONE_BATCH = 1
TIMEOUT_S = 30.0
SHAPE = projection(schema_of(Rows.RECORDS, include_headers=False), Rows.RECORDS)

Entry = tuple[int, bytes | None, bytes | None]  # offset, key, value


class Writer:
    """One transactional producer. Every `write` is a batch of one partition."""

    def __init__(self, bootstrap: str, name: str, codec: str) -> None:
        settings = {"transactional.id": name, "compression.type": codec, "linger.ms": 60_000}
        self.producer = RdProducer(
            {"bootstrap.servers": bootstrap, "transaction.timeout.ms": 600_000, "log_level": 0}
            | settings
        )
        self.producer.init_transactions(TIMEOUT_S)
        self.is_open = False

    def write(self, topic: str, records: list[tuple[bytes, bytes | None]]) -> None:
        if not self.is_open:
            self.producer.begin_transaction()
            self.is_open = True
        for key, value in records:
            self.producer.produce(topic, key=key, value=value, partition=0)
        assert self.producer.flush(TIMEOUT_S) == 0

    def end(self, *, commit: bool) -> None:
        end = self.producer.commit_transaction if commit else self.producer.abort_transaction
        end(TIMEOUT_S)
        self.is_open = False


@pytest.fixture(scope="module")
def log(bootstrap: str) -> Iterator[str]:
    """The name of a topic with a random history; the last transaction of one producer is open."""
    dice = random.Random(17)
    topic = "history"
    with connected(bootstrap) as client:
        create_topic(client, NewTopic(name=topic, partitions=1, replication_factor=1, configs={}))
        writers = [Writer(bootstrap, f"history-{codec}", codec) for codec in CODECS]
        for step in range(STEPS):
            writer = dice.choice(writers)
            if writer.is_open and dice.random() < 0.45:
                writer.end(commit=dice.random() < 0.5)
                continue
            count = dice.randint(1, 4)
            keys = [b"k%d" % dice.randrange(KEYS) for _ in range(count)]
            writer.write(
                topic, [(key, None if dice.random() < 0.2 else b"%d" % step) for key in keys]
            )
        for writer in writers:
            if writer.is_open:
                writer.end(commit=True)
        writers[0].write(topic, [(b"open", b"open")])
        (stable,) = _ends(client, topic, READ_COMMITTED)
        (end,) = _ends(client, topic, READ_UNCOMMITTED)
        assert stable < end, "the last transaction is open"
        yield topic
        writers[0].end(commit=False)


def _ends(client: Client, topic: str, isolation_level: int) -> list[int]:
    return list(ends(client, topic, isolation_level).values())


def _librdkafka(bootstrap: str, topic: str, isolation: str) -> list[Entry]:
    consumer = RdConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([RdPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Entry] = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "no answer"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            offset = message.offset()
            assert offset is not None
            found.append((offset, message.key(), message.value()))
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def expected(bootstrap: str, log: str) -> list[Entry]:
    found = _librdkafka(bootstrap, log, "read_committed")
    everything = _librdkafka(bootstrap, log, "read_uncommitted")
    assert 50 < len(found) < len(everything) - 50, "both kinds are well represented"
    return found


def test_java_consumer_agrees_with_the_oracle(
    bootstrap: str, log: str, expected: list[Entry], request: pytest.FixtureRequest
) -> None:
    if "kafka" not in request.node.name or shutil.which("java") is None:
        pytest.skip("one broker is enough to compare two consumers")
    command = fetch_jars().java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", log, "--from-beginning"),
        *("--isolation-level", "read_committed", "--max-messages", str(len(expected))),
        *("--formatter-property", "print.offset=true", "--formatter-property", "print.key=true"),
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    rows = [line.split("\t") for line in done.stdout.splitlines()]
    found = [
        (int(offset.removeprefix("Offset:")), key.encode(), _value(value))
        for offset, key, value in rows
    ]
    assert found == expected


def _value(text: str) -> bytes | None:
    return None if text == "null" else text.encode()


@pytest.mark.parametrize("fetch_bytes", [ONE_BATCH, 400, 1 << 20])
def test_consumer_from_every_offset(
    client: Client, log: str, expected: list[Entry], fetch_bytes: int
) -> None:
    config = FetchConfig(max_bytes=fetch_bytes, partition_max_bytes=fetch_bytes)
    (end,) = _ends(client, log, READ_COMMITTED)

    for start in range(0, end, 1 if fetch_bytes > 1_000 else 17):
        consumer = Consumer(Fetcher(client, config), {TopicPartition(log, 0): start})
        found: list[Entry] = []
        while consumer.positions[TopicPartition(log, 0)] < end:
            records = [each.record for each in consumer.poll(max_wait_ms=0)]
            found += [(each.offset, each.key, each.value) for each in records]
        assert found == [each for each in expected if each[0] >= start], f"from {start}"


def _spark_windows(
    client: Client, wanted: OffsetRange, rows: RowOptions, fetch_bytes: int, offset: int
) -> Iterator[FetchWindow]:
    rest = wanted._replace(start_offset=offset)
    for each in fetching.windows(client, rest, rows, fetch_bytes=fetch_bytes):
        yield FetchWindow(each.fetch_offset, each.records, each.aborted)


def _spark_rows(
    client: Client, wanted: OffsetRange, rows: RowOptions, fetch_bytes: int
) -> list[Entry]:
    read_from = partial(_spark_windows, client, wanted, rows, fetch_bytes)
    batches = record_batches(read_from, wanted, rows, Pruning(), SHAPE, seed=bytes(16))
    return [
        (row["offset"], row["key"], row["value"]) for batch in batches for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("fetch_bytes", [ONE_BATCH, 1 << 20])
def test_spark_rows_of_every_range(
    client: Client, log: str, expected: list[Entry], fetch_bytes: int
) -> None:
    partition = TopicPartition(log, 0)
    end = offsets_at(client, [partition], LATEST, IsolationLevel.READ_COMMITTED)[partition]

    for start in range(0, end, 3 if fetch_bytes > 1_000 else 23):
        for stop in (min(start + 4, end), end):
            wanted = OffsetRange(partition, start, stop)
            found = _spark_rows(client, wanted, RowOptions(), fetch_bytes)
            assert found == [each for each in expected if start <= each[0] < stop], wanted


@pytest.mark.parametrize("fetch_bytes", [ONE_BATCH, 1 << 20])
def test_fold_of_every_range(
    client: Client, log: str, expected: list[Entry], fetch_bytes: int
) -> None:
    (end,) = _ends(client, log, READ_COMMITTED)

    for start in range(0, end, 7 if fetch_bytes > 1_000 else 47):
        wanted = OffsetRange(TopicPartition(log, 0), start, end)
        found = _spark_rows(client, wanted, RowOptions(fold=FoldMode.LATEST), fetch_bytes)
        latest = {each[1]: each for each in expected if each[0] >= start}
        assert sorted(found) == sorted(latest.values()), f"from {start}"


def test_state_rebuild_ends_at_the_last_stable_offset(
    client: Client, log: str, expected: list[Entry]
) -> None:
    state = rebuild(client, log)

    (stable,) = _ends(client, log, READ_COMMITTED)
    (each,) = state.partitions
    latest = {key: value for _, key, value in expected}
    assert each.end_offset == each.last_stable_offset == stable < each.high_watermark
    assert each.fold.live_keys == sum(value is not None for value in latest.values())
    assert each.fold.deleted_keys == sum(value is None for value in latest.values())
    assert state.counts.records == len(expected)


def test_every_offset_without_a_row_has_a_reason(
    client: Client, log: str, expected: list[Entry]
) -> None:
    partition = TopicPartition(log, 0)
    (end,) = _ends(client, log, READ_COMMITTED)
    wanted, rows = OffsetRange(partition, 0, end), RowOptions()

    gaps = list(gaps_in(_spark_windows(client, wanted, rows, 1 << 20, 0), wanted, rows))

    missing = [offset for gap in gaps for offset in range(gap.start_offset, gap.end_offset)]
    assert sorted([*missing, *(each[0] for each in expected)]) == list(range(end))
    assert {gap.reason for gap in gaps} == {GapReason.CONTROL, GapReason.ABORTED}


def test_a_waiting_reader_gets_a_transaction_when_it_is_committed(
    bootstrap: str, client: Client, make_topic: MakeTopic, new_name: NewName
) -> None:
    topic = make_topic()
    writer = Writer(bootstrap, new_name("waiting"), "none")
    writer.write(topic, [(b"k", b"v")])
    position = {TopicPartition(topic, 0): 0}
    before = [each.records.nbytes for each in Fetcher(client).fetch(position, max_wait_ms=0)]

    writer.end(commit=True)

    assert before == [0]
    assert wait_until(
        lambda: log_ends(client, topic, committed=True)[0] == 2, "the marker is there"
    )
    (fetched,) = Fetcher(client).fetch(position)
    assert [each[0].record_count for each in fetched.batches()] == [1, 1]
