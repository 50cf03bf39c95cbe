"""Transactions one after the other, and readers of committed records. Shell.

librdkafka speaks the older protocol (TV1), Kafka's own producer that of KIP-890 (TV2).
"""

import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.arena import Arena, Both, Spent
from bench.peers.contestants import Contestant
from bench.peers.jobs import run_job
from bench.peers.load import Load, Moved, loads
from bench.peers.measures import Line
from bench.peers.produce import GB, partitions_text
from bench.peers.topics import make_topic
from bench.storage import scratch

JAVA_LOOP: Final = Path(__file__).with_name("KafkaTransactionLoop.java")
VALUE_BYTES: Final = 100
# Transactions of a measurement, and of each client before anything counts.
COUNT, WARM_UP = 400, 150
QUICK_COUNT, QUICK_WARM_UP = 30, 10
# What readers get: transactions, records in each, bytes of a value.
FILLED: Final = (200, 500, 1000)
QUICK_FILLED: Final = (20, 100, 1000)
NOTE: Final = (
    "One producer, the next transaction begins when the one before is committed; records of 100 B, "
    "RF 1. The latency is that of the commit call alone, after all records were acknowledged. Both "
    "answer once the decision is committed. We write the markers before anybody else is served; "
    "Kafka writes them meanwhile, and the next transaction of the producer may have to wait. CPU "
    "is of the broker, for a thousand transactions. Readers get transactions of 500 records of "
    "1 KB, of which every tenth is aborted."
)


class Case(NamedTuple):
    client: str
    partitions: int
    records: int

    @property
    def label(self) -> str:
        each = "1 record" if self.records == 1 else f"{self.records} records"
        return f"{self.client}, {partitions_text(self.partitions)}, {each} each"


class Ended(NamedTuple):
    """What one client did: transactions a second, the commit's microseconds, the broker's CPU."""

    rate: float
    p50: float
    p99: float
    cpu_s: float  # for a thousand transactions


def run(arena: Arena) -> list[Line]:
    arena.notes.append(NOTE)
    with ExitStack() as stack:
        commands = _commands(arena, stack.enter_context(scratch()))
        (load,) = loads(stack, 1)
        turns = stack.enter_context(arena.both())
        turns.each(partial(make_topic, "transactions", 3))
        turns.each(partial(make_topic, "committed", 1))
        filled = turns.each(partial(fill, arena))
        if len(set(filled)) != 1:
            raise RuntimeError(f"readers would not find the same: {filled}")
        cases = [Case(*each) for each in product(commands, (1, 3), (1, 100))]
        for client in commands:
            turns.each(partial(measure, arena, commands, Case(client, 3, 1)))
        found: dict[Case, list[Both[Ended]]] = {case: [] for case in cases}
        read: list[Both[Spent]] = []
        for number in range(arena.rounds):
            for case in cases:
                found[case].append(turns.round(number, partial(measure, arena, commands, case)))
            read.append(turns.round(number, partial(consume, load, filled[0])))
    return [line for case, rounds in found.items() for line in lines_of(case, rounds)] + [
        Line(
            name="consume committed records, 1000 B, every tenth transaction aborted",
            unit="MB/s",
            rounds=tuple(each.pair(lambda spent: spent.value) for each in read),
            cpu=tuple(each.pair(lambda spent: spent.cpu_per_unit) for each in read),
            cpu_unit="s/GB",
            record_bytes=FILLED[2],
        )
    ]


def _commands(arena: Arena, directory: Path) -> dict[str, list[str]]:
    """How each client is started."""
    found = {"librdkafka": [sys.executable, "-m", "bench.peers.transaction_job", "loop"]}
    if arena.jars is not None:
        libraries = f"{arena.jars.directory / 'libs'}/*"
        command = ["javac", "-d", str(directory), "-cp", libraries, str(JAVA_LOOP)]
        subprocess.run(command, check=True, capture_output=True)
        path = f"{directory}{os.pathsep}{libraries}"
        found["Java"] = ["java", "-Xmx256m", "-cp", path, JAVA_LOOP.stem]
    return found


def measure(arena: Arena, commands: dict[str, list[str]], case: Case, side: Contestant) -> Ended:
    count, before = arena.size(COUNT, QUICK_COUNT), arena.size(WARM_UP, QUICK_WARM_UP)
    sizes = (case.partitions, case.records, count, before, VALUE_BYTES)
    started_cpu_s = side.cpu_s
    found = run_job([*commands[case.client], side.bootstrap, "transactions", *map(str, sizes)])
    seconds, p50, p99 = found
    cpu_s = (side.cpu_s - started_cpu_s) * 1000 / (count + before)
    return Ended(count / seconds, p50, p99, cpu_s)


def fill(arena: Arena, side: Contestant) -> int:
    """How many records are committed."""
    sizes = map(str, QUICK_FILLED if arena.quick else FILLED)
    command = [sys.executable, "-m", "bench.peers.transaction_job", "fill"]
    return int(run_job([*command, side.bootstrap, "committed", *sizes]))


def consume(load: Load, messages: int, side: Contestant) -> Spent:
    """librdkafka reads committed records unless told otherwise."""
    before = side.cpu_s
    moved: Moved = load.moved(
        "consume",
        bootstrap=side.bootstrap,
        topic="committed",
        partitions=1,
        value_bytes=FILLED[2],
        messages=messages,
    )
    return Spent(moved.mb_s, side.cpu_s - before, moved.bytes / GB)


def lines_of(case: Case, rounds: list[Both[Ended]]) -> list[Line]:
    return [
        Line(
            name=f"transactions, {case.label}",
            unit="txn/s",
            rounds=tuple(each.pair(lambda ended: ended.rate) for each in rounds),
            cpu=tuple(each.pair(lambda ended: ended.cpu_s) for each in rounds),
            cpu_unit="s/1000 txn",
        ),
        Line(
            name=f"commit p50, {case.label}",
            unit="µs",
            rounds=tuple(each.pair(lambda ended: ended.p50) for each in rounds),
            more_is_better=False,
        ),
        Line(
            name=f"commit p99, {case.label}",
            unit="µs",
            rounds=tuple(each.pair(lambda ended: ended.p99) for each in rounds),
            more_is_better=False,
        ),
    ]
