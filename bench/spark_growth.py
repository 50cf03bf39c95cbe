"""How the cost of a table grows: more rows, more cores, more changed keys; beside Spark's own way.

    python -m bench.spark_growth [--only rows,cores,changes] [--kinds parquet,delta]
                                 [--millions 1,10,50] [--no-peer] [--quick]

Each key is written five times, so the last table of 50 million records has 10 million rows; of that
one 0.1, 1 and 10 percent of the keys change. The peer is what one writes without us: Spark's own
connector, `max_by` over the key, and Parquet, or a staging table and MERGE in PostgreSQL. CPU is of
Spark with all its children, without the broker and without PostgreSQL's server.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import ledgerstone.spark
from bench.broker_process import BrokerProcess, broker_process
from bench.peers.jars import fetch_connector, fetch_jdbc
from bench.spark import (
    CHUNK_ROWS,
    KEY_BYTES,
    PARTITIONS,
    Log,
    Run,
    connection_to,
    plain_writes,
    timed,
)
from bench.spark_latest import LatestBySpark
from bench.spark_tables import postgres_by_tcp
from bench.table import Row, render
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.runner import run_pipeline
from ledgerstone.spark.encoding import Spans, partitions_by_key
from ledgerstone.spark.outgoing import Outgoing, built_batches
from ledgerstone.spark.producing import BatchProducer

WRITES_OF_A_KEY: Final = 5
CORES: Final = (1, 2, 4)
SHARES: Final = (0.001, 0.01, 0.1)
KINDS: Final = ("parquet", "delta", "postgres", "sqlite", "duckdb")
# Kinds for which the peer has a way of its own.
PEER_KINDS: Final = ("parquet", "postgres")
MILLION: Final = 1_000_000
# Multiplied by it, numbers below a power of ten come in an order that looks like none.
_SCATTER: Final = 2_654_435_761
_NAME: Final = b'{"name":"' + b"x" * 60 + b'","age":'
_AGE_DIGITS: Final = 10
_VALUE: Final = np.frombuffer(_NAME + b"0" * _AGE_DIGITS + b"}", np.uint8)


# -- records ------------------------------------------------------------------------------------


def digits(numbers: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """A row of ASCII digits for each number."""
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return ((numbers[:, None] // powers) % 10 + ord("0")).astype(np.uint8)


def chunk_of(topic: str, keys: NDArray[np.int64], first: int) -> Outgoing:
    """`age` is the number of the record, behind a one: JSON allows no leading zeros."""
    count, at = len(keys), np.arange(len(keys), dtype=np.int64)
    values = np.tile(_VALUE, (count, 1))
    ages = 10 ** (_AGE_DIGITS - 1) + first + at
    values[:, len(_NAME) : len(_NAME) + _AGE_DIGITS] = digits(ages, _AGE_DIGITS)
    size = len(_VALUE)
    return Outgoing(
        topics=topic,
        keys=Spans(digits(keys, KEY_BYTES).reshape(-1), at * KEY_BYTES, np.full(count, KEY_BYTES)),
        values=Spans(values.reshape(-1), at * size, np.full(count, size)),
        partition=np.full(count, -1, np.int64),
        timestamp_ms=np.full(count, int(time.time() * 1000), np.int64),
        headers=None,
    )


class Topic(NamedTuple):
    broker: BrokerProcess
    name: str
    keys: int

    def create(self) -> None:
        with Client(connection_to(self.broker).bootstrap) as client:
            create_topic(client, NewTopic(name=self.name, partitions=PARTITIONS, configs={}))

    def write(self, count: int, first: int = 0) -> Log:
        """So many records, numbered from `first`, each of the key of its number."""
        connection = connection_to(self.broker)
        options = plain_writes(connection, self.name)
        with Client(connection.bootstrap) as client:
            producer = BatchProducer(client)
            for start in range(first, first + count, CHUNK_ROWS):
                numbers = np.arange(start, min(start + CHUNK_ROWS, first + count), dtype=np.int64)
                keys = (numbers * _SCATTER) % self.keys
                chunk = chunk_of(self.name, keys, start)
                placed = partitions_by_key(chunk.keys, PARTITIONS)
                for batches in built_batches(chunk, self.name, placed, options, producer):
                    producer.send(batches)
            size = sum(each.bytes for each in producer.written.values())
        return Log(self.name, count, len(_VALUE), size)


# -- tables -------------------------------------------------------------------------------------


class Tables(NamedTuple):
    """One after the other, each in a directory of its own below `directory`."""

    broker: BrokerProcess
    directory: Path
    postgres: str

    def pipeline(self, kind: str, topic: str, mark: str) -> dict[str, Any]:
        name = f"to-{kind}-{mark}"
        table: dict[str, Any] = {"type": kind, "path": f"{name}.table"}
        if kind == "postgres":
            table = {"type": kind, "connection": self.postgres, "name": name.replace("-", "_")}
        return {
            "name": name,
            "source": {"bootstrap": self.broker.bootstrap, "topic": topic},
            "key": {"format": "string", "column": "id"},
            "value": {"format": "json", "columns": {"name": "string", "age": "int64"}},
            "table": table,
        }

    def follow(self, spark: SparkSession, kind: str, topic: str, mark: str) -> Run:
        definition = define(self.pipeline(kind, topic, mark), directory=self.directory)
        return timed(lambda: run_pipeline(definition, spark, once=True), self.broker)

    def drop(self, kind: str, mark: str) -> None:
        if kind != "postgres":
            place = self.directory / f"to-{kind}-{mark}.table"
            shutil.rmtree(place, ignore_errors=True)
            place.unlink(missing_ok=True)


def session(cores: int, jars: list[str]) -> SparkSession:
    conf = {"spark.log.level": "ERROR", "spark.sql.shuffle.partitions": str(2 * cores)}
    if jars:
        conf["spark.jars"] = ",".join(jars)
    return ledgerstone.spark.session("growth", master=f"local[{cores}]", memory="4g", conf=conf)


def rows_row(name: str, rows: int, ours: Run, theirs: Run | None) -> Row:
    """Thousands of rows a second; the peer's likewise."""
    text = f"{name} ({ours.cpu_s:.1f} CPU s"
    text += ")" if theirs is None else f", peer {theirs.cpu_s:.1f})"
    value = rows / ours.wall_s / 1e3
    if theirs is None:
        return Row(text, value, "k rows/s", "", value, 1, None)
    limit = rows / theirs.wall_s / 1e3
    return Row(text, value, "k rows/s", "Spark's connector", limit, value / limit, None)


# -- what is measured ---------------------------------------------------------------------------


class Bench:
    """The peer is there if its jars are."""

    def __init__(
        self, tables: Tables, kinds: list[str], jars: list[str], peer: LatestBySpark
    ) -> None:
        self.tables, self.kinds, self.jars, self.peer = tables, kinds, jars, peer

    def _has_peer(self, kind: str) -> bool:
        return bool(self.jars) and kind in PEER_KINDS

    def rows(self, topics: dict[int, Topic], *, with_changes: bool) -> Iterator[Row]:
        spark = session(2, self.jars)
        largest = max(topics)
        for rows, topic in topics.items():
            for kind in self.kinds:
                mark = f"{topic.name}-rows"
                ours = self.tables.follow(spark, kind, topic.name, mark)
                theirs = None
                if self._has_peer(kind):
                    load = partial(self.peer.load, spark, kind, topic.name)
                    theirs = timed(load, topic.broker)
                yield rows_row(f"{rows / MILLION:g} M records to {kind}", rows, ours, theirs)
                if not with_changes or rows != largest:
                    self.tables.drop(kind, mark)
        if with_changes:
            yield from self._changes(spark, topics[largest], largest)
        spark.stop()

    def _changes(self, spark: SparkSession, topic: Topic, rows: int) -> Iterator[Row]:
        """Of the largest table, which is there by now, in every kind."""
        written = rows
        for share in SHARES:
            count = int(topic.keys * share)
            topic.write(count, written)
            written += count
            for kind in self.kinds:
                ours = self.tables.follow(spark, kind, topic.name, f"{topic.name}-rows")
                theirs = None
                if self._has_peer(kind):
                    merge = partial(self.peer.merge, spark, kind, topic.name)
                    theirs = timed(merge, topic.broker)
                name = f"{share:.1%} of {topic.keys / MILLION:g} M keys changed, {kind}"
                yield seconds_row(name, ours, theirs)

    def cores(self, topic: Topic, rows: int) -> Iterator[Row]:
        for cores in CORES:
            spark = session(cores, self.jars)
            for kind in self.kinds:
                mark = f"{topic.name}-cores-{cores}"
                self.tables.follow(spark, kind, "warm", f"warm-{cores}")
                ours = self.tables.follow(spark, kind, topic.name, mark)
                self.tables.drop(kind, mark)
                name = f"{rows / MILLION:g} M records to {kind}, {cores} cores"
                yield rows_row(name, rows, ours, None)
            spark.stop()


def seconds_row(name: str, ours: Run, theirs: Run | None) -> Row:
    text = f"{name} ({ours.cpu_s:.1f} CPU s"
    text += ")" if theirs is None else f", peer {theirs.cpu_s:.1f})"
    if theirs is None:
        return Row(text, ours.wall_s, "s", "", ours.wall_s, 1, None)
    ratio = theirs.wall_s / ours.wall_s
    return Row(text, ours.wall_s, "s", "Spark's connector", theirs.wall_s, ratio, None)


def run(*, only: set[str], kinds: list[str], sizes: list[int], with_peer: bool) -> Iterator[Row]:
    with ExitStack() as opened:
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="growth-")))
        uri = opened.enter_context(postgres_by_tcp())
        broker = opened.enter_context(broker_process(directory, {"log.retention.ms": "-1"}))
        jars: list[str] = []
        if with_peer:
            connector, jdbc = fetch_connector(), fetch_jdbc()
            if isinstance(connector, str) or isinstance(jdbc, str):
                raise SystemExit(connector if isinstance(connector, str) else jdbc)
            jars = [str(each) for each in (*connector.jars, *jdbc.jars)]
        topics = {size: Topic(broker, f"people-{size}", size // WRITES_OF_A_KEY) for size in sizes}
        for size, topic in topics.items():
            topic.create()
            topic.write(size)
        peer = LatestBySpark(broker.bootstrap, directory / "peer", uri)
        bench = Bench(Tables(broker, directory, uri), kinds, jars, peer)
        if "cores" in only:
            # The first run of a session starts Python processes; it is not what is measured.
            warm = Topic(broker, "warm", 1000)
            warm.create()
            warm.write(1000)
            size = sizes[len(sizes) // 2]
            yield from bench.cores(topics[size], size)
        if only & {"rows", "changes"}:
            yield from bench.rows(topics, with_changes="changes" in only)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="rows,cores,changes")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--millions", default="1,10,50", help="sizes of the topics")
    parser.add_argument("--no-peer", action="store_true", help="without Spark's own connector")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the records")
    given = parser.parse_args()
    scale = MILLION // 100 if given.quick else MILLION
    sizes = [int(float(each) * scale) for each in given.millions.split(",")]
    found = []
    for row in run(
        only=set(given.only.split(",")),
        kinds=given.kinds.split(","),
        sizes=sizes,
        with_peer=not given.no_peer,
    ):
        print(row.name, f"{row.value:,.4g} {row.unit}", flush=True)
        found.append(row)
    print(render(found))


if __name__ == "__main__":
    main()
