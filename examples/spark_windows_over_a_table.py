"""Visits of an hour, every half hour, of a table whose rows change, come late and are deleted.

    python examples/spark_windows_over_a_table.py

Every visit is in two windows. One is moved to another time, one comes a day late, one is deleted.
Exits with an error if a window counts a visit that is not in it any more.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import ledgerstone.spark
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.streams import Topic, ktable
from ledgerstone.pipeline.streams.aggregating import GroupedTable, aggregate_table
from ledgerstone.pipeline.streams.time_windows import TimeWindows
from ledgerstone.pipeline.streams.totals import Aggregate, MeasureKind

FIRST = {"ann": "2026-01-02T10:10:00Z", "bob": "2026-01-02T10:20:00Z"}
LATER = {"bob": "2026-01-02T11:40:00Z", "cyd": "2026-01-01T09:00:00Z", "ann": None}


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


def tell(work: Path, bootstrap: str) -> None:
    visits = GroupedTable(
        source=Topic(bootstrap=bootstrap, name="visits", value="shop string, at timestamp"),
        by=("value.shop",),
        windows=TimeWindows(size="1 hour", slide="30 minutes", time="value.at"),
        aggregates=(Aggregate(name="visits", kind=MeasureKind.COUNT),),
        to=Topic(bootstrap=bootstrap, name="visits-by-hour"),
        work=str(work),
    )
    result = Topic(bootstrap=bootstrap, name="visits-by-hour", value="visits int")
    spark = ledgerstone.spark.session("windows-over-a-table", master="local[2]")

    def counted() -> dict[str, int]:
        aggregate_table(spark, visits, once=True).awaitTermination()
        rows = ktable(spark, result).collect()
        return {json.loads(row.key)["window.start"]: row.value.visits for row in rows}

    with connect_to(bootstrap) as client:
        for name in ("visits", "visits-by-hour"):
            settings = {"cleanup.policy": "compact"}
            create_topic(client, NewTopic(name=name, partitions=2, configs=settings))
        producer = Producer(client, ProducerConfig())
        found = []
        for some in (FIRST, LATER):
            producer.send([visit(key, at) for key, at in some.items()])
            found.append(dict(sorted(counted().items())))
            print(f"visits by the start of the hour: {found[-1]}")
    spark.stop()
    before, after = found
    assert before == {"2026-01-02T09:30:00.000Z": 2, "2026-01-02T10:00:00.000Z": 2}, before
    assert after == {
        "2026-01-01T08:30:00.000Z": 1,
        "2026-01-01T09:00:00.000Z": 1,
        "2026-01-02T11:00:00.000Z": 1,
        "2026-01-02T11:30:00.000Z": 1,
    }, after


def visit(key: str, at: str | None) -> NewRecord:
    value = None if at is None else json.dumps({"shop": "s", "at": at}).encode()
    return NewRecord("visits", key.encode(), value)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, a_broker(Path(name)) as bootstrap:
        tell(Path(name) / "work", bootstrap)


if __name__ == "__main__":
    main()
