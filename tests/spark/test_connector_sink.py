"""Writes through Spark: tombstones, keys, headers, times, and attempts that come again."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import udf

from ledgerstone.client.blocking import Client
from ledgerstone.client.groups import list_groups
from ledgerstone.client.partitioner import partition_of
from ledgerstone.client.producer import NewRecord
from tests.kit.broker import BrokerProcess
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.kit import FORMAT, QUERY_TIMEOUT_S, FailOnceWritten, plain, read, stream, write

EARLIEST = {"startingOffsets": "earliest"}


def test_rows_become_records_where_their_keys_belong(
    spark: SparkSession, broker: BrokerProcess, make_topic: MakeTopic, client: Client
) -> None:
    topic = make_topic("written", partitions=3, retention_ms="-1")
    frame = spark.sql(
        "SELECT string(id) AS key, if(id % 4 = 0, NULL, concat('v', id)) AS value, "
        "timestamp_millis(1000 + id) AS timestamp FROM range(20)"
    )

    write(frame, broker, topic, **{"kafka.compression.type": "lz4"})

    rows = read(spark, broker, topic).collect()
    expected = {
        b"%d" % n: (None if n % 4 == 0 else b"v%d" % n, partition_of(b"%d" % n, 3), 1000 + n)
        for n in range(20)
    }
    assert {plain(r.key): (plain(r.value), r.partition, _ms(r.timestamp)) for r in rows} == expected
    assert len(rows) == 20
    # A write that is over leaves no notes behind.
    assert not [g for g in list_groups(client) if g.group_id.startswith("ledgerstone-sink")]


def _ms(time: datetime) -> int:
    return round(time.replace(tzinfo=UTC).timestamp() * 1000)


def test_columns_say_topic_partition_and_headers(
    spark: SparkSession, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    first, second = make_topic("first", partitions=2), make_topic("second", partitions=2)
    rows = [
        (first, 1, b"k", b"1", [("h", b"x"), ("n", None)]),
        (second, 0, None, b"2", None),
        (second, None, b"k", None, []),
    ]
    schema = (
        "topic string, partition int, key binary, value binary, "
        "headers array<struct<key:string,value:binary>>"
    )

    write(spark.createDataFrame(rows, schema), broker, None)

    found = read(spark, broker, f"{first},{second}", includeHeaders="true").collect()
    by_value = {plain(r.value): r for r in found}
    assert by_value[b"1"].partition == 1
    assert by_value[b"1"].headers == [Row(key="h", value=b"x"), Row(key="n", value=None)]
    assert (by_value[b"2"].topic, by_value[b"2"].partition, by_value[b"2"].key) == (second, 0, None)
    assert by_value[None].partition == partition_of(b"k", 2)


@pytest.mark.parametrize(
    ("columns", "part"),
    [
        ("'a' AS key", "a column named value is needed"),
        ("1 AS value", "cannot be sent as that"),
        ("'a' AS value, 'b' AS colour", "not a column of a record"),
    ],
)
def test_columns_that_cannot_be_sent_are_refused(
    spark: SparkSession, broker: BrokerProcess, make_topic: MakeTopic, columns: str, part: str
) -> None:
    with pytest.raises((AnalysisException, PySparkException), match=part):
        write(spark.sql(f"SELECT {columns}"), broker, "anywhere")


def test_a_task_that_is_tried_again_writes_each_row_once(
    spark: SparkSession, broker: BrokerProcess, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("retried", partitions=2)
    fail_once = FailOnceWritten(str(tmp_path / "failed"), broker.bootstrap, topic)

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    passed = udf(fail_once, "string", useArrow=False)
    frame = spark.range(0, 20_000, 1, 1).select(passed("id").alias("key"))
    write(frame.selectExpr("key", "'v' AS value"), broker, topic)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")

    counts = read(spark, broker, topic).groupBy("key").count().collect()
    assert (tmp_path / "failed").exists()
    assert {plain(r.key): r["count"] for r in counts} == {
        b"%d" % n: len(range(n, 20_000, 7)) for n in range(7)
    }


def test_a_batch_that_is_run_again_writes_each_row_once(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    source, target = make_topic("again-from", partitions=2), make_topic("again-to", partitions=3)
    produce(*(NewRecord(source, b"%d" % n, b"v%d" % (n % 3)) for n in range(50)))
    checkpoint = tmp_path / "checkpoint"
    _copy(stream(spark, broker, source, **EARLIEST), broker, target, checkpoint)

    # As after a crash between the last write and Spark's note of it.
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    produce(NewRecord(source, b"50", b"new"))
    _copy(stream(spark, broker, source, **EARLIEST), broker, target, checkpoint)

    rows = read(spark, broker, target).collect()
    assert Counter(plain(r.key) for r in rows) == Counter(b"%d" % n for n in range(51))


def _copy(frame: DataFrame, broker: BrokerProcess, topic: str, checkpoint: Path) -> None:
    query = (
        frame.select("key", "value", "timestamp")
        .writeStream.format(FORMAT)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "topic": topic})
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_TIMEOUT_S), "the query does not end"


def test_a_log_is_not_overwritten(
    spark: SparkSession, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    writer = spark.sql("SELECT 'a' AS value").write.format(FORMAT)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": make_topic("kept")}

    with pytest.raises(AnalysisException, match="only appended to"):
        writer.options(**options).mode("overwrite").save()


def test_a_topic_that_is_not_there_stops_the_query_by_name(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    source = make_topic("stopped")
    produce(NewRecord(source, b"k", b"v"))

    with pytest.raises(StreamingQueryException, match="no-such-target"):
        _copy(stream(spark, broker, source, **EARLIEST), broker, "no-such-target", tmp_path)
