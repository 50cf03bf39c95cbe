"""The connector against Apache Kafka itself: what a Java broker has, we read, write and follow."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from golden.kafka_broker import KafkaBroker
from golden.kafka_client import Record, TransactionalWriter, create_topics
from golden.kafka_tools import fetch_jars
from ledgerstone.client.partitioner import partition_of
from tests.spark.kit import FORMAT, plain

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="a Kafka broker needs Java"),
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(jars=fetch_jars(), work=tmp_path_factory.mktemp("kafka") / "broker")
    broker.format()
    broker.start()
    yield broker
    broker.kill()


def _read(spark: SparkSession, kafka: KafkaBroker, topic: str, **options: str) -> DataFrame:
    settings = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, **options}
    return spark.read.format(FORMAT).options(**settings).load()


def test_what_is_written_to_kafka_is_read_back(spark: SparkSession, kafka: KafkaBroker) -> None:
    create_topics(kafka.bootstrap, {"plain": {"retention.ms": "-1"}})
    frame = spark.sql(
        "SELECT string(id) AS key, if(id = 3, NULL, string(id)) AS value, "
        "timestamp_millis(1000 + id) AS timestamp FROM range(10)"
    )

    settings = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": "plain"}
    frame.write.format(FORMAT).options(**settings).mode("append").save()

    rows = _read(spark, kafka, "plain").collect()
    assert {plain(r.key): plain(r.value) for r in rows} == {
        b"%d" % n: None if n == 3 else b"%d" % n for n in range(10)
    }
    assert all(r.partition == partition_of(bytes(r.key), 1) for r in rows)


def test_aborted_transactions_of_kafka_are_no_rows_and_are_explained(
    spark: SparkSession, kafka: KafkaBroker
) -> None:
    create_topics(kafka.bootstrap, {"txn": {"retention.ms": "-1"}})
    writer = TransactionalWriter(kafka.bootstrap, transactional_id="writer")
    for key, commits in ((b"a", True), (b"b", False), (b"c", True)):
        writer.begin()
        writer.write("txn", [Record(key=key, value=b"v", timestamp=1_000)])
        (writer.commit if commits else writer.abort)()

    rows = _read(spark, kafka, "txn").collect()
    gaps = _read(spark, kafka, "txn", rows="gaps").collect()

    assert [plain(r.key) for r in rows] == [b"a", b"c"]
    assert [(g.startOffset, g.endOffset, g.reason) for g in gaps] == [
        (1, 2, "control"),
        (2, 3, "aborted"),
        (3, 4, "control"),
        (5, 6, "control"),
    ]


def test_a_stream_from_kafka_to_kafka_repeats_nothing(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    create_topics(kafka.bootstrap, {"from": {}, "to": {}})
    settings = {"kafka.bootstrap.servers": kafka.bootstrap}
    frame = spark.sql("SELECT string(id) AS key, 'v' AS value FROM range(25)")
    frame.write.format(FORMAT).options(**settings, topic="from").mode("append").save()

    for _ in range(2):
        query = (
            spark.readStream.format(FORMAT)
            .options(**settings, subscribe="from", startingOffsets="earliest")
            .load()
            .select("key", "value")
            .writeStream.format(FORMAT)
            .options(**settings, topic="to", checkpointLocation=str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120), "the query does not end"
        for name in ("0", ".0.crc"):
            (tmp_path / "commits" / name).unlink(missing_ok=True)

    assert _read(spark, kafka, "to").count() == 25
