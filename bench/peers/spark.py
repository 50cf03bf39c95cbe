"""A whole topic into Spark: our data source beside Spark's own connector, in one session. Shell."""

import json
import sys
from typing import Any, Final

from bench.peers.arena import Arena
from bench.peers.jars import fetch_connector
from bench.peers.jobs import run_job
from bench.peers.measures import Line, Pair
from bench.storage import scratch

TARGET: Final = 2.0
NOTE: Final = (
    "Both read the same topic of four partitions from the same broker, {broker}, in one local "
    "session of Spark with 2 GiB, in turn, after reading it once each. Records have keys of 16 B; "
    "one in ten is a tombstone. A stream takes what there is in four micro-batches, a long one ten "
    "times as much in forty, one of a topic of 32 partitions some 50 rows of each at a time. "
    "Spark's side: {connector}, on Spark {spark}. CPU is of Spark with its Python workers."
)


def run(arena: Arena) -> list[Line]:
    connector = fetch_connector()
    if isinstance(connector, str):
        arena.notes.append(connector)
        print(connector, flush=True)
    with arena.alone(prefers_kafka=True) as broker, scratch() as directory:
        job = {
            "bootstrap": broker.bootstrap,
            "host": broker.as_process.host,
            "port": broker.port,
            "pid": broker.pid,
            "directory": str(directory),
            "jars": [] if isinstance(connector, str) else [str(jar) for jar in connector.jars],
            "rounds": arena.rounds,
            "rows": {"100": arena.size(1_000_000, 40_000), "1000": arena.size(250_000, 10_000)},
            "long_rows": arena.size(10_000_000, 400_000),
            "small_rows": arena.size(32_000, 6_400),
        }
        found = run_job([sys.executable, "-m", "bench.peers.spark_job", json.dumps(job)])
        label = "none" if isinstance(connector, str) else connector.label
        arena.notes.append(NOTE.format(broker=broker.name, connector=label, spark=found["spark"]))
    return [line_of(each) for each in found["lines"]]


def line_of(found: dict[str, Any]) -> Line:
    """Seconds of each round, by the clock and of CPU, as rates of the topic."""
    mb, rows = found["bytes"] / 1e6, found["rows"]
    rate = [
        Pair(mb / ours[0], None if theirs is None else mb / theirs[0])
        for ours, theirs in found["rounds"]
    ]
    cpu = [
        Pair(ours[1] * 1e6 / rows, None if theirs is None else theirs[1] * 1e6 / rows)
        for ours, theirs in found["rounds"]
    ]
    return Line(
        name=found["name"],
        unit="MB/s",
        rounds=tuple(rate),
        target=TARGET,
        cpu=tuple(cpu),
        cpu_unit="s/M rows",
        record_bytes=round(found["bytes"] / rows),
    )
