"""Batch reads through Spark: rows, projection, fold, filters, SQL. What needs no JVM is in
tests/unit/spark."""

from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import Row, SparkSession

from ledgerstone.client.admin import delete_records
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord
from ledgerstone.types import TopicPartition
from tests.kit.broker import BrokerProcess
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.kit import FORMAT, offsets_of, plain, read


def test_rows_have_the_columns_of_sparks_kafka_connector(
    spark: SparkSession, broker: BrokerProcess, make_topic: MakeTopic, produce: Produce
) -> None:
    topic = make_topic("columns", retention_ms="-1")
    produce(
        NewRecord(topic, b"alice", b"1", [("h", b"v"), ("n", None)], timestamp_ms=1_000),
        NewRecord(topic, b"alice", None, timestamp_ms=2_500),
        NewRecord(topic, None, b"", timestamp_ms=3_000),
    )

    frame = read(spark, broker, topic, includeHeaders="true")
    rows = frame.collect()

    times = [
        datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None) for ms in (1000, 2500, 3000)
    ]
    assert frame.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    assert [(plain(r.key), plain(r.value), r.offset) for r in rows] == [
        (b"alice", b"1", 0),
        (b"alice", None, 1),
        (None, b"", 2),
    ]
    headers = [Row(key="h", value=b"v"), Row(key="n", value=None)]
    assert [r.headers for r in rows] == [headers, None, None]
    assert {(r.topic, r.partition, r.timestampType) for r in rows} == {(topic, 0, 0)}
    assert [r.timestamp for r in rows] == times


@pytest.fixture(scope="module")
def keyed(make_topic: MakeTopic, produce: Produce) -> str:
    """Two partitions, three keys each written twice; one is deleted."""
    topic = make_topic("keyed", partitions=2)
    for value in (b"1", b"2"):
        produce(*(NewRecord(topic, key, value) for key in (b"a", b"b", b"c")))
    produce(NewRecord(topic, b"b", None))
    return topic


def test_a_schema_is_a_projection(spark: SparkSession, broker: BrokerProcess, keyed: str) -> None:
    frame = (
        spark.read.format(FORMAT)
        .schema("offset bigint, KEY binary")
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": keyed})
        .load()
    )

    assert frame.columns == ["offset", "KEY"]
    assert sorted(plain(row.KEY) or b"" for row in frame.collect()) == [
        b"a", b"a", b"b", b"b", b"b", b"c", b"c",
    ]  # fmt: skip


def test_a_column_that_is_not_there_is_refused_by_name(
    spark: SparkSession, broker: BrokerProcess, keyed: str
) -> None:
    frame = (
        spark.read.format(FORMAT)
        .schema("ofset bigint")
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": keyed})
        .load()
    )

    with pytest.raises((PythonException, AnalysisException), match="ofset"):
        frame.collect()


def test_a_fold_has_the_latest_value_of_each_live_key(
    spark: SparkSession, broker: BrokerProcess, keyed: str
) -> None:
    rows = read(spark, broker, keyed, fold="latest").collect()
    deleted = read(spark, broker, keyed, fold="latest", includeTombstones="true").collect()

    assert sorted((plain(r.key), plain(r.value)) for r in rows) == [(b"a", b"2"), (b"c", b"2")]
    assert {plain(r.key): plain(r.value) for r in deleted} == {b"a": b"2", b"b": None, b"c": b"2"}


def test_a_frame_with_filters_pushed_has_the_same_rows(
    spark: SparkSession, broker: BrokerProcess, keyed: str
) -> None:
    condition = "key = X'61' AND partition IN (0, 1) AND offset >= 0 AND timestamp > '2000-01-01'"

    pushed = read(spark, broker, keyed, pushFilters="true").filter(condition)
    plainly = read(spark, broker, keyed).filter(condition)

    assert offsets_of(pushed) == offsets_of(plainly)
    assert len(offsets_of(pushed)) == 2


def test_a_filter_on_a_frame_does_not_stay_in_the_frame(
    spark: SparkSession, broker: BrokerProcess, keyed: str
) -> None:
    frame = read(spark, broker, keyed)

    counts = [frame.filter("value IS NULL").count(), frame.count()]

    assert counts == [1, 7]


def test_ranges_are_split_when_asked_to(
    spark: SparkSession, broker: BrokerProcess, keyed: str
) -> None:
    frame = read(spark, broker, keyed, minPartitions="4")

    assert frame.rdd.getNumPartitions() >= 4
    assert frame.count() == 7


def test_offsets_that_are_gone_are_data_loss_with_both_numbers(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
) -> None:
    topic = make_topic("lost")
    produce(*(NewRecord(topic, None, b"%d" % n) for n in range(5)))
    delete_records(client, {TopicPartition(topic, 0): 3}).all_done()
    options = {"startingOffsets": f'{{"{topic}": {{"0": 1}}}}'}

    with pytest.raises(PythonException, match=r"offset 1 is not in the log, which has \[3, 5\)"):
        read(spark, broker, topic, **options).collect()
    kept = read(spark, broker, topic, failOnDataLoss="false", **options)
    gaps = read(spark, broker, topic, failOnDataLoss="false", rows="gaps", **options).collect()

    assert offsets_of(kept) == [(0, 3), (0, 4)]
    assert [(g.startOffset, g.endOffset, g.reason) for g in gaps] == [(1, 3, "deleted")]


def test_directories_are_read_without_a_broker(
    spark: SparkSession, broker: BrokerProcess, keyed: str
) -> None:
    of_files = spark.read.format(FORMAT).options(path=str(broker.data), subscribe=keyed)

    assert offsets_of(of_files.load()) == offsets_of(read(spark, broker, keyed))
    assert offsets_of(of_files.option("fold", "latest").load()) == offsets_of(
        read(spark, broker, keyed, fold="latest")
    )


def test_a_topic_is_a_view_or_a_table_in_sql(
    spark: SparkSession, broker: BrokerProcess, keyed: str
) -> None:
    options = (
        f"('kafka.bootstrap.servers' = '{broker.bootstrap}', 'subscribe' = '{keyed}', "
        "'fold' = 'latest')"
    )
    # Spark keeps the options of a table to itself, so a query has to say them.
    spark.sql(f"CREATE TEMPORARY VIEW keyed_view USING {FORMAT} OPTIONS {options}")
    spark.sql(f"CREATE TABLE keyed_table (key binary, value binary) USING {FORMAT}")
    select = "SELECT string(key), string(value) FROM"

    of_view = spark.sql(f"{select} keyed_view ORDER BY 1").collect()
    of_table = spark.sql(f"{select} keyed_table WITH {options} ORDER BY 1").collect()

    spark.sql("DROP TABLE keyed_table")
    spark.catalog.dropTempView("keyed_view")
    assert [tuple(row) for row in of_view] == [("a", "2"), ("c", "2")]
    assert of_table == of_view


def test_a_topic_that_is_not_there_is_said_by_name(
    spark: SparkSession, broker: BrokerProcess
) -> None:
    with pytest.raises(AnalysisException, match="no-such-topic"):
        read(spark, broker, "no-such-topic").collect()
