"""Writes with `exactlyOnce`: what read_committed readers see after failures and repetitions.

Every point of a crash is tested without Spark in tests/transactions; here are Spark's own ways to
fail a task, to run a batch again and to fail a job. Kills are in test_written_once_kills.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from golden.kafka_broker import KafkaBroker
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.streams.frames import part_of
from tests.kit.both_brokers import BOTH_BROKERS, running_broker
from tests.kit.broker import BrokerProcess
from tests.spark.conftest import MakeTopic, Produce, producing_to, topics_of
from tests.spark.kit import (
    FORMAT,
    QUERY_TIMEOUT_S,
    FailOnceWritten,
    plain,
    read,
    run_until_now,
    stream,
    write,
)
from tests.transactions.kit import committed, ends

EARLIEST = {"startingOffsets": "earliest"}
Broker = BrokerProcess | KafkaBroker
ONCE = {"exactlyOnce": "true"}


@pytest.fixture(scope="module", params=BOTH_BROKERS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    with running_broker(request.param, tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[Client]:
    host, _, port = broker.bootstrap.rpartition(":")
    with Client([Endpoint(host, int(port))]) as made:
        yield made


@pytest.fixture(scope="module")
def make_topic(client: Client) -> MakeTopic:
    return topics_of(client)


@pytest.fixture(scope="module")
def produce(client: Client) -> Produce:
    return producing_to(client)


def test_a_batch_that_is_run_again_is_not_written_again(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic, produce: Produce,
    client: Client, tmp_path: Path,
) -> None:  # fmt: skip
    source, target = make_topic("once-from", partitions=2), make_topic("once-to", partitions=3)
    produce(*(NewRecord(source, b"%d" % n, b"v%d" % (n % 3)) for n in range(50)))
    checkpoint = tmp_path / "checkpoint"
    _copy(stream(spark, broker, source, **EARLIEST), broker, target, checkpoint)
    before = ends(client, target, 0)

    # As after a crash between the last commit and Spark's note of it.
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    _copy(stream(spark, broker, source, **EARLIEST), broker, target, checkpoint)
    again = ends(client, target, 0)
    produce(NewRecord(source, b"50", b"new"))
    _copy(stream(spark, broker, source, **EARLIEST), broker, target, checkpoint)

    assert again == before, "not even an aborted record is written"
    assert Counter(key for key, _ in committed(client, target)) == Counter(
        b"%d" % n for n in range(51)
    )
    rows = read(spark, broker, target).collect()
    assert sorted(plain(row.key) or b"" for row in rows) == sorted(b"%d" % n for n in range(51))


def _copy(frame: DataFrame, broker: Broker, topic: str, checkpoint: Path) -> None:
    query = (
        frame.select("key", "value", "timestamp")
        .writeStream.format(FORMAT)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, **ONCE})
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_TIMEOUT_S), "the query does not end"


def test_a_task_that_is_tried_again_leaves_one_visible_copy(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic, client: Client,
    tmp_path: Path,
) -> None:  # fmt: skip
    topic = make_topic("tried-again", partitions=2)
    fail_once = FailOnceWritten(str(tmp_path / "failed"), broker.bootstrap, topic)

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    passed = udf(fail_once, "string", useArrow=False)
    frame = spark.range(0, 20_000, 1, 1).select(passed("id").alias("key"))
    write(frame.selectExpr("key", "'v' AS value"), broker, topic, **ONCE)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")

    assert (tmp_path / "failed").exists(), "the first attempt had written some"
    assert Counter(key for key, _ in committed(client, topic)) == {
        b"%d" % n: len(range(n, 20_000, 7)) for n in range(7)
    }


def test_a_job_that_fails_shows_nothing(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic, client: Client
) -> None:
    topic = make_topic("failed-job", partitions=2)
    # Two tasks, of which one fails in every attempt.
    frame = spark.range(0, 200, 1, 2).selectExpr(
        "string(if(id = 199, raise_error('in the last row'), id)) AS key", "'v' AS value"
    )

    # Spark does not wait for the other task, which may even begin after the write was aborted.
    with pytest.raises(PySparkException, match="in the last row"):
        write(frame, broker, topic, **ONCE)

    assert committed(client, topic) == []


def test_rows_of_one_batch_go_to_several_topics_once(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic, produce: Produce,
    client: Client, tmp_path: Path,
) -> None:  # fmt: skip
    source = make_topic("several-from", partitions=2)
    targets = [make_topic("several-to") for _ in range(2)]
    produce(*(NewRecord(source, b"%d" % n, b"v") for n in range(20)))
    names = f"if(int(string(key)) % 2 = 0, '{targets[0]}', '{targets[1]}') AS topic"

    def each_batch(batch: DataFrame, batch_id: int) -> None:
        rows = batch.selectExpr("key", "value", names)
        # Twice, as if the batch were run again.
        for _ in range(2):
            write(rows, broker, None, **ONCE, **part_of(batch, batch_id))

    run_until_now(stream(spark, broker, source, **EARLIEST), tmp_path, each_batch)

    found = [sorted(int(key or b"") for key, _ in committed(client, each)) for each in targets]
    assert found == [list(range(0, 20, 2)), list(range(1, 20, 2))]


def test_a_name_for_a_write_needs_transactions(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic
) -> None:
    frame = spark.sql("SELECT 'k' AS key, 'v' AS value")

    with pytest.raises(AnalysisException, match="only with exactlyOnce"):
        write(frame, broker, make_topic(), txnAppId="a", txnVersion="1")
