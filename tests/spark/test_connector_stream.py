"""Streams through Spark: limits, restarts, groups, data loss, a checkpoint of another connector."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from ledgerstone.client.admin import add_partitions, delete_records
from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import committed_offsets
from ledgerstone.client.producer import NewRecord
from ledgerstone.types import TopicPartition
from tests.kit.broker import BrokerProcess
from tests.kit.cleaner_api import compact
from tests.spark.conftest import MakeTopic, Produce, Recreate
from tests.spark.kit import offsets_of, run_until_now, stream

EARLIEST = {"startingOffsets": "earliest"}


class Batches:
    """What each micro-batch brought."""

    def __init__(self) -> None:
        self.offsets: list[list[tuple[int, int]]] = []

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        del batch_id
        self.offsets.append(offsets_of(frame))

    @property
    def all(self) -> list[tuple[int, int]]:
        return sorted(offset for batch in self.offsets for offset in batch)


def numbered(topic: str, count: int) -> list[NewRecord]:
    return [NewRecord(topic, b"%d" % n, b"", partition=n % 2) for n in range(count)]


def test_limits_and_restarts_lose_and_repeat_nothing(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("limits", partitions=2)
    options = {**EARLIEST, "maxOffsetsPerTrigger": "8", "kafka.group.id": f"{topic}-group"}
    seen = Batches()

    produce(*numbered(topic, 20))
    run_until_now(stream(spark, broker, topic, **options), tmp_path, seen)
    produce(*numbered(topic, 4))
    run_until_now(stream(spark, broker, topic, **options), tmp_path, seen)

    assert [len(batch) for batch in seen.offsets] == [8, 8, 4, 4]
    assert seen.all == [(p, n) for p in (0, 1) for n in range(12)]
    committed = committed_offsets(client, f"{topic}-group")
    assert {each.partition: done.offset for each, done in committed.items()} == {0: 12, 1: 12}


@pytest.mark.parametrize(("options", "tasks"), [({}, 1), ({"minPartitions": "2"}, 2)])
def test_small_ranges_share_a_task_unless_tasks_are_asked_for(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
    options: dict[str, str],
    tasks: int,
) -> None:
    topic = make_topic(f"shared-{tasks}", partitions=2)
    produce(*numbered(topic, 20))
    seen = Batches()
    found: list[int] = []

    def each(frame: DataFrame, batch_id: int) -> None:
        seen(frame, batch_id)
        found.append(frame.rdd.getNumPartitions())

    run_until_now(stream(spark, broker, topic, **EARLIEST, **options), tmp_path, each)

    assert found == [tasks]
    assert seen.all == [(p, n) for p in (0, 1) for n in range(10)]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("endingOffsets", "a stream has no end"),
        ("kafka.security.protocol", "must be one of PLAINTEXT, SSL"),
    ],
)
def test_options_that_a_stream_refuses_are_told(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, option: str, message: str
) -> None:
    frame = stream(spark, broker, "none", **{option: "latest"})

    with pytest.raises(StreamingQueryException, match=message):
        run_until_now(frame, tmp_path, Batches())


def test_a_limit_in_bytes_holds_for_records_of_any_size(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("bytes", partitions=2)
    sizes = [100] * 40 + [50_000] * 30 + [100] * 40
    records = [NewRecord(topic, None, b"x" * size, partition=0) for size in sizes]
    for start in range(0, len(records), 5):
        produce(*records[start : start + 5])
    produce(NewRecord(topic, None, b"few", partition=1))
    seen = Batches()
    found: list[int] = []

    def each(frame: DataFrame, batch_id: int) -> None:
        seen(frame, batch_id)
        found.append(frame.selectExpr("coalesce(sum(length(value)), 0)").first()[0])  # type: ignore[index]

    limits = {"maxBytesPerTrigger": "500000", "maxOffsetsPerTrigger": "100"}
    run_until_now(stream(spark, broker, topic, **EARLIEST, **limits), tmp_path, each)

    assert seen.all == [(0, n) for n in range(len(sizes))] + [(1, 0)]
    assert max(found) <= 2 * 500_000
    assert 3 <= len(found) <= 12


def test_a_new_partition_is_read_from_its_start(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("growing", partitions=1)
    seen = Batches()
    produce(NewRecord(topic, b"", b"", partition=0))
    run_until_now(stream(spark, broker, topic, **EARLIEST), tmp_path, seen)

    add_partitions(client, topic, 2)
    produce(NewRecord(topic, b"", b"", partition=1))
    run_until_now(stream(spark, broker, topic, **EARLIEST), tmp_path, seen)

    assert seen.offsets == [[(0, 0)], [(1, 0)]]


def test_what_was_deleted_while_the_query_was_away_is_data_loss(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("away")
    seen = Batches()
    produce(NewRecord(topic, None, b"0"))
    run_until_now(stream(spark, broker, topic, **EARLIEST), tmp_path, seen)
    produce(*(NewRecord(topic, None, b"%d" % n) for n in range(1, 6)))
    delete_records(client, {TopicPartition(topic, 0): 4}).all_done()

    with pytest.raises(StreamingQueryException, match="begins at 4, but was read up to 1"):
        run_until_now(stream(spark, broker, topic, **EARLIEST), tmp_path, seen)
    forgiving = stream(spark, broker, topic, failOnDataLoss="false", **EARLIEST)
    run_until_now(forgiving, tmp_path, seen)

    assert seen.all == [(0, 0), (0, 4), (0, 5)]


def test_a_topic_that_was_created_again_is_not_taken_for_the_one_that_was_read(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    recreate: Recreate,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("again")
    seen = Batches()
    produce(*(NewRecord(topic, None, b"old") for _ in range(4)))
    run_until_now(stream(spark, broker, topic, **EARLIEST), tmp_path, seen)
    recreate(topic)
    produce(*(NewRecord(topic, None, b"new") for _ in range(6)))

    with pytest.raises(StreamingQueryException, match=r"created again: .*checkpointLocation"):
        run_until_now(stream(spark, broker, topic, **EARLIEST), tmp_path, seen)
    forgiving = stream(spark, broker, topic, failOnDataLoss="false", **EARLIEST)
    run_until_now(forgiving, tmp_path, seen)

    assert seen.offsets == [[(0, n) for n in range(4)], [(0, n) for n in range(6)]]


def test_a_checkpoint_of_sparks_kafka_connector_is_continued(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("migrated", partitions=2)
    produce(*numbered(topic, 10))
    _write_checkpoint(tmp_path, {topic: {"0": 3, "1": 1}})
    seen = Batches()

    run_until_now(stream(spark, broker, topic), tmp_path, seen)

    assert seen.all == [(0, 3), (0, 4), (1, 1), (1, 2), (1, 3), (1, 4)]


def _write_checkpoint(directory: Path, offsets: dict[str, dict[str, int]]) -> None:
    """As the connector leaves it after its first batch: compact JSON, a batch that is committed."""
    conf = {"spark.sql.shuffle.partitions": "2"}
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf})
    text = json.dumps(offsets, separators=(",", ":"))
    files = {
        "metadata": '{"id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}',
        "offsets/0": f"v1\n{head}\n{text}",
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
    }
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)


def test_a_folded_stream_tells_each_delete(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("folded")
    produce(*(NewRecord(topic, key, value) for key, value in [(b"a", b"1"), (b"b", b"1")]))
    produce(NewRecord(topic, b"a", b"2"), NewRecord(topic, b"b", None))
    seen = Batches()

    run_until_now(stream(spark, broker, topic, fold="latest", **EARLIEST), tmp_path, seen)

    assert seen.offsets == [[(0, 2), (0, 3)]]


def test_missed_tombstones_stop_a_query_that_comes_back(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
    new_name: Callable[[str], str],
) -> None:
    topic = make_topic("ghosts", cleanup_policy="compact", delete_retention_ms="0")
    options = {**EARLIEST, "kafka.group.id": new_name("ghosts-group")}
    seen = Batches()
    produce(NewRecord(topic, b"a", b"1"))
    run_until_now(stream(spark, broker, topic, **options), tmp_path, seen)
    produce(NewRecord(topic, b"a", None), NewRecord(topic, b"b", b"1"))
    # The first pass stamps the delete horizon, the second removes the tombstone.
    for _ in range(2):
        compact(broker, topic)
        produce(NewRecord(topic, b"c", b"1"))

    with pytest.raises(StreamingQueryException, match="tombstones were removed below offset 2"):
        run_until_now(stream(spark, broker, topic, **options), tmp_path, seen)
    reconciled = stream(spark, broker, topic, onMissedTombstones="reconcile", **options)
    run_until_now(reconciled, tmp_path, seen)

    # The delete of "a" at offset 1 never arrived, and the query was warned.
    assert (0, 1) not in seen.all
    assert seen.all[-1] == (0, 4)
