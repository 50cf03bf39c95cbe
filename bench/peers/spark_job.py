"""Reads in one Spark session, ours and Spark's own in turn. A program; one JSON job, one answer.

Shell. Both sources get the same options. What is compared is a whole topic, every column that the
source has by default, into nothing and into Parquet.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyspark
from pyspark.sql import DataFrame, SparkSession

import ledgerstone.spark
from bench.broker_process import BrokerProcess
from bench.peers.jobs import DOING, RESULT
from bench.peers.processes import cpu_s_between, cpu_s_by_process
from bench.spark import Log, fill, to_noop

OURS: Final = "ledgerstone"
THEIRS: Final = "kafka"
MICRO_BATCHES: Final = 4


class Source(NamedTuple):
    spark: SparkSession
    bootstrap: str
    log: Log
    directory: Path
    micro_batches: int = MICRO_BATCHES

    def options(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": self.log.topic,
            "startingOffsets": "earliest",
        }

    def batch(self, source: str) -> DataFrame:
        return self.spark.read.format(source).options(**self.options()).load()

    def stream(self, source: str) -> DataFrame:
        limit = str(-(-self.log.rows // self.micro_batches))
        reader = self.spark.readStream.format(source).options(**self.options())
        return reader.option("maxOffsetsPerTrigger", limit).load()


def batch_to_noop(source: Source, name: str) -> None:
    to_noop(source.batch(name))


def batch_to_parquet(source: Source, name: str) -> None:
    source.batch(name).write.mode("overwrite").parquet(str(source.directory / "parquet"))


def stream_to(sink: str, source: Source, name: str) -> None:
    target = source.directory / "stream"
    shutil.rmtree(target, ignore_errors=True)
    writer = source.stream(name).writeStream.format(sink)
    writer = writer.option("checkpointLocation", str(target / "checkpoint"))
    if sink != "noop":
        writer = writer.option("path", str(target / "files"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seen = sum(progress["numInputRows"] for progress in query.recentProgress)
    if seen != source.log.rows:
        raise RuntimeError(f"{name} streamed {seen} of {source.log.rows} rows")


LONG_STREAMS: Final = ("stream to noop", "stream to Parquet")
# Of a long stream: as many rows in each as in those of a short one.
LONG_MICRO_BATCHES: Final = 40
LONG_ROUNDS: Final = 2
# Of many partitions with few rows each, as a topic has that is not busy.
SMALL_MICRO_BATCHES: Final = 20
SMALL_PARTITIONS: Final = 32
WORK: Final[dict[str, Callable[[Source, str], None]]] = {
    "batch to noop": batch_to_noop,
    "batch to Parquet": batch_to_parquet,
    "stream to noop": partial(stream_to, "noop"),
    "stream to Parquet": partial(stream_to, "parquet"),
}


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds by the clock, and of CPU here, in the JVM and in its workers."""
    before, started = cpu_s_by_process(os.getpid()), time.perf_counter()
    work()
    took_s = time.perf_counter() - started
    return took_s, cpu_s_between(before, cpu_s_by_process(os.getpid()))


def measure(
    source: Source,
    names: list[str],
    rounds: int,
    works: dict[str, Callable[[Source, str], None]] = WORK,
    suffix: str = "",
) -> list[dict[str, Any]]:
    for name in names:
        if (seen := source.batch(name).count()) != source.log.rows:
            raise RuntimeError(f"{name} read {seen} of {source.log.rows} rows")
    lines = []
    for label, work in works.items():
        title = f"Spark {label}, {source.log.value_bytes} B{suffix}"
        print(DOING + title, flush=True)
        for name in names:  # each road is walked once before it is measured
            work(source, name)
        found = []
        for number in range(rounds):
            order = names if number % 2 == 0 else names[::-1]
            seconds = {name: timed(partial(work, source, name)) for name in order}
            found.append((seconds[OURS], seconds.get(THEIRS)))
        lines.append(
            {
                "name": title,
                "rows": source.log.rows,
                "bytes": source.log.wire_bytes,
                "rounds": found,
            }
        )
    return lines


def main() -> None:
    job = json.loads(sys.argv[1])
    broker = BrokerProcess(pid=job["pid"], host=job["host"], port=job["port"], ready_s=0.0)
    conf = {"spark.log.level": "ERROR"}
    if job["jars"]:
        conf["spark.jars"] = ",".join(job["jars"])
    names = [OURS, THEIRS] if job["jars"] else [OURS]
    logs = [
        fill(broker, rows, int(value_bytes), keys=rows // 5)
        for value_bytes, rows in job["rows"].items()
    ]
    spark = ledgerstone.spark.session("peers", memory="2g", conf=conf)
    lines = []
    for log in logs:
        source = Source(spark, job["bootstrap"], log, Path(job["directory"]))
        lines += measure(source, names, job["rounds"])
    long = fill(broker, job["long_rows"], 100, keys=job["long_rows"] // 5)
    source = Source(spark, job["bootstrap"], long, Path(job["directory"]), LONG_MICRO_BATCHES)
    works = {label: WORK[label] for label in LONG_STREAMS}
    suffix = f", {LONG_MICRO_BATCHES} micro-batches"
    lines += measure(source, names, min(job["rounds"], LONG_ROUNDS), works, suffix)
    rows = job["small_rows"]
    small = fill(
        broker,
        rows,
        100,
        keys=rows,
        partitions=SMALL_PARTITIONS,
        chunk_rows=rows // SMALL_MICRO_BATCHES,
    )
    source = Source(spark, job["bootstrap"], small, Path(job["directory"]), SMALL_MICRO_BATCHES)
    suffix = f", {SMALL_PARTITIONS} partitions, {SMALL_MICRO_BATCHES} small micro-batches"
    lines += measure(source, names, min(job["rounds"], LONG_ROUNDS), works, suffix)
    spark.stop()
    print(RESULT + json.dumps({"spark": pyspark.__version__, "lines": lines}), flush=True)


if __name__ == "__main__":
    main()
