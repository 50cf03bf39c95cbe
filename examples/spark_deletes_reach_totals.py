"""A row is deleted from a database and from everything derived from it: topic, totals, files.

    python examples/spark_deletes_reach_totals.py

A SQLite table becomes a compacted topic, the topic becomes totals per country, the totals become
another topic. Then one customer is deleted from the database. Exits with an error if the pipeline
keeps a trace of the customer, or if a total still counts them.
"""

import contextlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import ledgerstone.spark
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.sources.row_bytes import KeyFormat
from ledgerstone.pipeline.sources.running import run_source
from ledgerstone.pipeline.sources.shape import TableShape
from ledgerstone.pipeline.sources.source_definition import SourceDefinition, SourceType
from ledgerstone.pipeline.streams import Topic, ktable
from ledgerstone.pipeline.streams.aggregating import GroupedTable, aggregate_table
from ledgerstone.pipeline.streams.totals import Aggregate, MeasureKind

CUSTOMERS = [
    ("ann@example.com", "PL", 5),
    ("bob@example.com", "PL", 7),
    ("cyd@example.com", "PT", 1),
]
GONE = "bob@example.com"


@contextlib.contextmanager
def a_broker(directory: Path) -> Iterator[str]:
    ready = directory / "ready.json"
    command = [sys.executable, "-m", "ledgerstone", "up", "--data", str(directory / "data")]
    command += ["--listen", "127.0.0.1:0", "--ready-file", str(ready), "--log-level", "error"]
    process = subprocess.Popen(command)
    try:
        while not ready.exists():
            if process.poll() is not None:
                raise SystemExit("the broker did not start")
            time.sleep(0.01)
        yield json.loads(ready.read_text())["bootstrap"]
    finally:
        process.terminate()
        process.wait()


def make_table(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE customers(email TEXT PRIMARY KEY, country TEXT, paid INTEGER)")
        db.executemany("INSERT INTO customers VALUES (?,?,?)", CUSTOMERS)


def delete_customer(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM customers WHERE email = ?", (GONE,))


def files_that_hold(word: str, directory: Path) -> list[str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path.name for path in files if word.encode() in path.read_bytes()]


def tell(directory: Path, bootstrap: str) -> None:
    database, work = directory / "shop.db", directory / "work"
    with connect_to(bootstrap) as client:
        for name in ("customers", "paid-by-country"):
            settings = {"cleanup.policy": "compact"}
            create_topic(client, NewTopic(name=name, partitions=2, configs=settings))
    source = SourceDefinition(
        name="customers",
        bootstrap=bootstrap,
        topic="customers",
        type=SourceType.SQLITE,
        location=str(database),
        work=str(work / "source"),
        shape=TableShape(table="customers", key_columns=("email",), key_format=KeyFormat.STRING),
    )
    totals = GroupedTable(
        source=Topic(bootstrap=bootstrap, name="customers", value="country string, paid bigint"),
        by=("value.country",),
        aggregates=(
            Aggregate(name="customers", kind=MeasureKind.COUNT),
            Aggregate(name="paid", kind=MeasureKind.SUM, column="value.paid"),
        ),
        to=Topic(bootstrap=bootstrap, name="paid-by-country"),
        work=str(work / "totals"),
    )
    result = Topic(bootstrap=bootstrap, name="paid-by-country", value="customers int, paid int")
    spark = ledgerstone.spark.session("deletes-reach-totals", master="local[2]")

    def round_() -> dict[str, int]:
        print(f"source: {run_source(source)}")
        aggregate_table(spark, totals, once=True).awaitTermination()
        rows = ktable(spark, result).collect()
        return {json.loads(row.key)["value.country"]: row.value.paid for row in rows}

    make_table(database)
    before = round_()
    delete_customer(database)
    after = round_()
    left = files_that_hold(GONE, work)
    print(f"paid by country: {before}, and without {GONE}: {after}")
    print(f"files of the pipeline that hold the customer: {left}")
    spark.stop()
    assert before == {"PL": 12, "PT": 1}, before
    assert after == {"PL": 5, "PT": 1}, after
    assert not left, left


def main() -> None:
    with tempfile.TemporaryDirectory() as name, a_broker(Path(name)) as bootstrap:
        tell(Path(name), bootstrap)


if __name__ == "__main__":
    main()
