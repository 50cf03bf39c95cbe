"""The Spark connector: rows from a broker into Spark and beside it, each next to a peer or a limit.

    python -m bench.spark [--quick]

One broker process serves everybody over loopback; records have keys of 16 bytes. CPU is user and
system time of this process and all its children, the JVM and the Python workers among them, and
not of the broker. The first result is timed in a process of its own: cold, without the archive of
classes, and warm; beside it that of Spark as it comes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import Consumer
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

import ledgerstone.spark
from bench.broker_process import BrokerProcess, broker_process
from bench.peers.processes import cpu_s_between, cpu_s_by_process, tree
from bench.table import Row, paired, render
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets
from ledgerstone.records.batch import Codec
from ledgerstone.spark.encoding import Spans, partitions_by_key
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.outgoing import Outgoing, built_batches
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.producing import BatchProducer
from ledgerstone.spark.range_task import RangeTask
from ledgerstone.spark.read_options import Connection, RowOptions, Rows
from ledgerstone.spark.schema import projection, schema_of
from ledgerstone.spark.tasks import read_range
from ledgerstone.spark.write_options import WriteOptions
from ledgerstone.types import TopicPartition

PARTITIONS = 4
CHUNK_ROWS = 100_000
KEY_BYTES = 16
NOOP_ROWS_PER_S = 1.5e6
CONFLUENT_SHARES = {100: 8.0, 1000: 2.0}
FOLD_SHARE = 4.0


class Run(NamedTuple):
    wall_s: float
    cpu_s: float
    answer: Any


class Log(NamedTuple):
    topic: str
    rows: int
    value_bytes: int
    wire_bytes: int


def cpu_without(broker: BrokerProcess) -> dict[int, float]:
    served = set(tree(broker.pid))
    by_process = cpu_s_by_process(os.getpid())
    return {pid: used_s for pid, used_s in by_process.items() if pid not in served}


def timed(call: Callable[[], Any], broker: BrokerProcess) -> Run:
    before, started = cpu_without(broker), time.perf_counter()
    answer = call()
    wall_s = time.perf_counter() - started
    return Run(wall_s, cpu_s_between(before, cpu_without(broker)), answer)


def best(runs: list[Run]) -> Run:
    return min(runs, key=lambda run: run.wall_s)


# -- data ---------------------------------------------------------------------------------------


def connection_to(broker: BrokerProcess) -> Connection:
    return Connection(bootstrap=(Endpoint(broker.host, broker.port),))


def plain_writes(connection: Connection, topic: str) -> WriteOptions:
    """Batches that nobody compresses, numbers or recognises."""
    return WriteOptions(
        connection=connection,
        topic=topic,
        codec=Codec.NONE,
        batch_bytes=256 * 1024,
        include_headers=False,
        deduplicate=False,
        exactly_once=False,
        transaction_timeout_ms=60_000,
        part_of=None,
    )


def fill(
    broker: BrokerProcess,
    rows: int,
    value_bytes: int,
    *,
    keys: int,
    partitions: int = PARTITIONS,
    chunk_rows: int = CHUNK_ROWS,
) -> Log:
    """A topic of keyed records; one in ten is a tombstone. Batches end with each chunk."""
    topic = f"bench-{rows}-{value_bytes}-{keys}"
    connection = connection_to(broker)
    options = plain_writes(connection, topic)
    dice = np.random.default_rng(1)
    values = dice.integers(0, 256, chunk_rows * value_bytes, np.uint8)
    with Client(connection.bootstrap) as client:
        create_topic(
            client,
            NewTopic(name=topic, partitions=partitions, replication_factor=1, configs={}),
        )
        producer = BatchProducer(client)
        for first in range(0, rows, chunk_rows):
            count = min(chunk_rows, rows - first)
            chunk = _chunk(dice.integers(0, keys, count), values, value_bytes, topic)
            numbers = partitions_by_key(chunk.keys, partitions)
            for batches in built_batches(chunk, topic, numbers, options, producer):
                producer.send(batches)
        wire_bytes = sum(each.bytes for each in producer.written.values())
    return Log(topic, rows, value_bytes, wire_bytes)


def _chunk(
    keys: NDArray[np.int64], values: NDArray[np.uint8], value_bytes: int, topic: str
) -> Outgoing:
    count = len(keys)
    text = "".join(f"{key:0{KEY_BYTES}d}" for key in keys.tolist()).encode()
    at = np.arange(count, dtype=np.int64)
    lengths = np.where(at % 10 == 9, -1, value_bytes)
    return Outgoing(
        topics=topic,
        keys=Spans(np.frombuffer(text, np.uint8), at * KEY_BYTES, np.full(count, KEY_BYTES)),
        values=Spans(values, at * value_bytes, lengths),
        partition=np.full(count, -1, np.int64),
        timestamp_ms=np.full(count, int(time.time() * 1000), np.int64),
        headers=None,
    )


# -- without Spark ------------------------------------------------------------------------------


def fetch_to_arrow(broker: BrokerProcess, log: Log) -> int:
    connection = connection_to(broker)
    shape = projection(schema_of(Rows.RECORDS, include_headers=False), Rows.RECORDS)
    partitions = [TopicPartition(log.topic, number) for number in range(PARTITIONS)]
    with Client(connection.bootstrap) as client:
        starts = list_offsets(client, dict.fromkeys(partitions, EARLIEST))
        ends = list_offsets(client, dict.fromkeys(partitions, LATEST))
    rows = 0
    for each in partitions:
        task = RangeTask(OffsetRange(each, starts[each].offset, ends[each].offset))
        for batch in read_range(task, connection, RowOptions(), Pruning(), shape):
            rows += batch.num_rows
    assert rows == log.rows, (rows, log.rows)
    return rows


def confluent_loop(broker: BrokerProcess, log: Log) -> int:
    """The usual loop, with everything a row needs taken from each message."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([log.topic])
    rows = []
    count = 0
    while count < log.rows:
        for message in consumer.consume(10_000, timeout=5.0):
            rows.append((message.key(), message.value(), message.offset()))
        count += len(rows)
        rows.clear()
    consumer.close()
    return count


# -- Spark --------------------------------------------------------------------------------------


def read(spark: SparkSession, broker: BrokerProcess, log: Log, **options: str) -> DataFrame:
    settings = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": log.topic, **options}
    return spark.read.format("ledgerstone").options(**settings).load()


def to_noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def to_parquet(frame: DataFrame, directory: Path) -> None:
    frame.write.mode("overwrite").parquet(str(directory / "parquet"))


def latest_by_spark(frame: DataFrame) -> DataFrame:
    """The usual way to the same rows: a shuffle of everything by key."""
    frame.createOrReplaceTempView("bench_records")
    return frame.sparkSession.sql(
        "SELECT key, max_by(struct(value, topic, partition, offset, timestamp), offset) AS latest "
        "FROM bench_records GROUP BY key HAVING latest.value IS NOT NULL"
    )


def micro_batches(spark: SparkSession, broker: BrokerProcess, log: Log, directory: Path) -> float:
    """Milliseconds of a micro-batch with almost nothing in it: the median of twenty."""
    step = max(log.rows // 20, 1)
    settings = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": log.topic}
    query = (
        spark.readStream.format("ledgerstone")
        .options(**settings, startingOffsets="earliest", maxOffsetsPerTrigger=str(step))
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    took = sorted(progress["durationMs"]["triggerExecution"] for progress in query.recentProgress)
    return float(took[len(took) // 2])


_FIRST_RESULT = """
import time
started = time.perf_counter()
import ledgerstone.spark
spark = ledgerstone.spark.session("bench", fast_start={fast})
frame = spark.read.format("ledgerstone").options(**{options!r}).load()
frame.count()
print("FIRST", time.perf_counter() - started)
"""


# Spark as it comes, which reads nothing: the least that a first result can take without our help.
_PLAIN_RESULT = """
import time
started = time.perf_counter()
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(10).selectExpr("sum(id)").collect()
print("FIRST", time.perf_counter() - started)
"""


def first_result_row(broker: BrokerProcess, log: Log, rounds: int, *, fast: bool) -> Row:
    """Less is better: the ratio is of Spark's time to ours."""
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": log.topic}
    code = _FIRST_RESULT.format(fast=fast, options=options)
    found = [(seconds_of(code), seconds_of(_PLAIN_RESULT)) for _ in range(rounds)]
    ours, plain = (min(each) for each in zip(*found, strict=True))
    name = "first result, warm" if fast else "first result, cold"
    return Row(name, ours, "s", "plain Spark, no topic", plain, plain / ours, 1.0 if fast else None)


def seconds_of(code: str) -> float:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split("FIRST")[1])


# -- rows of the table --------------------------------------------------------------------------


def beside_confluent(broker: BrokerProcess, log: Log, rounds: int) -> Row:
    pairs = []
    for _ in range(rounds):
        ours = timed(lambda: fetch_to_arrow(broker, log), broker)
        theirs = timed(lambda: confluent_loop(broker, log), broker)
        pairs.append((log.rows / ours.wall_s / 1e6, log.rows / theirs.wall_s / 1e6))
    name = f"fetch to Arrow without Spark, {log.value_bytes} B"
    row = paired(name, "M rows/s", "confluent-kafka consume loop", pairs)
    return row._replace(target=CONFLUENT_SHARES[log.value_bytes])


def rate(name: str, log: Log, run: Run, target: float | None) -> Row:
    rows_per_s = log.rows / run.wall_s
    limit = "" if target is None else "wanted"
    return Row(
        f"{name} ({log.wire_bytes / run.wall_s / 1e6:,.0f} MB/s, {run.cpu_s:.1f} CPU s)",
        rows_per_s / 1e6,
        "M rows/s",
        limit,
        (target or rows_per_s) / 1e6,
        rows_per_s / (target or rows_per_s),
        None if target is None else 1.0,
    )


def fold_beside_max_by(
    spark: SparkSession, broker: BrokerProcess, log: Log, directory: Path, rounds: int
) -> Row:
    pairs = []
    for _ in range(rounds):
        folded = read(spark, broker, log, fold="latest")
        ours = timed(partial(to_parquet, folded, directory), broker)
        shuffled = latest_by_spark(read(spark, broker, log))
        theirs = timed(partial(to_parquet, shuffled, directory), broker)
        # Less is better, so the figures are rows for a second of CPU.
        pairs.append((log.rows / ours.cpu_s / 1e6, log.rows / theirs.cpu_s / 1e6))
    row = paired("latest per key to Parquet, fold", "M rows/CPU s", "max_by", pairs)
    return row._replace(target=FOLD_SHARE)


def spark_rows(
    spark: SparkSession, broker: BrokerProcess, log: Log, directory: Path, rounds: int
) -> Iterator[Row]:
    to_noop(read(spark, broker, log))  # the first read of a session starts processes

    def repeated(call: Callable[[DataFrame], None], **options: str) -> Run:
        return best(
            [
                timed(lambda: call(read(spark, broker, log, **options)), broker)
                for _ in range(rounds)
            ]
        )

    yield rate("source to noop", log, repeated(to_noop), NOOP_ROWS_PER_S)
    keys_only = repeated(lambda frame: to_noop(frame.select("key", "offset")))
    yield rate("source to noop, two columns selected", log, keys_only, None)
    parquet = repeated(lambda frame: to_parquet(frame, directory))
    yield rate("source to Parquet", log, parquet, None)
    yield fold_beside_max_by(spark, broker, log, directory, rounds)


def sink_row(spark: SparkSession, broker: BrokerProcess, rows: int) -> Row:
    with Client(connection_to(broker).bootstrap) as client:
        topic = NewTopic(name="bench-sink", partitions=PARTITIONS, replication_factor=1, configs={})
        create_topic(client, topic)
    frame = spark.range(0, rows, 1, PARTITIONS).selectExpr(
        "lpad(string(id), 16, '0') AS key", "rpad(string(id), 100, 'x') AS value"
    )
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "bench-sink"}
    writer = frame.write.format("ledgerstone").options(**options).mode("append")
    run = timed(writer.save, broker)
    return rate("rows to a topic", Log("bench-sink", rows, 100, rows * 130), run, None)


def run(*, quick: bool) -> list[Row]:
    rows, rounds = (400_000, 1) if quick else (4_000_000, 3)
    with (
        tempfile.TemporaryDirectory() as name,
        broker_process(Path(name), {"log.retention.ms": "-1"}) as broker,
    ):
        directory = Path(name)
        small = fill(broker, rows, 100, keys=rows // 5)
        large = fill(broker, rows // 4, 1000, keys=rows // 20)
        table = [beside_confluent(broker, log, rounds) for log in (small, large)]
        table += [first_result_row(broker, large, rounds, fast=fast) for fast in (False, True)]
        spark = ledgerstone.spark.session("bench", memory="2g", conf={"spark.log.level": "ERROR"})
        table += spark_rows(spark, broker, small, directory, rounds)
        floor_ms = micro_batches(spark, broker, small, directory)
        table.append(Row("micro-batch, a twentieth of the rows", floor_ms, "ms", "", 1, 1, None))
        table.append(sink_row(spark, broker, rows // 4))
        if not quick:
            table += growth(spark, broker, small)
        spark.stop()
    return table


def growth(spark: SparkSession, broker: BrokerProcess, middle: Log) -> Iterator[Row]:
    for millions in (1, 4, 16):
        rows = millions * 1_000_000
        log = middle if rows == middle.rows else fill(broker, rows, 100, keys=rows // 5)
        done = timed(partial(to_noop, read(spark, broker, log)), broker)
        yield rate(f"source to noop, {millions} M rows", log, done, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data and fewer rounds")
    print(render(run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
