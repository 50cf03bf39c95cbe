"""From nothing to the first acknowledged record, and what a broker holds and burns. Shell."""

import time
from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple

from bench.peers.arena import Arena, Both, both_of
from bench.peers.contestants import Contestant
from bench.peers.load import Load, loads
from bench.peers.measures import Line
from bench.peers.processes import PeakMemory
from bench.peers.topics import make_topic
from bench.storage import scratch

TARGET: Final = 2.0
VALUE_BYTES: Final = 1000
PARTITIONS: Final = 6
IDLE_S: Final = 3.0
NOTE: Final = (
    "From the start of the process on an empty directory, formatted before where Kafka wants it, "
    "until a topic was made and its first record acknowledged. Memory is the resident size of the "
    "process and its children: three seconds after that, and the highest while 1 KB records are "
    "produced and consumed. Kafka's heap is what kafka-server-start gives it, 1 GiB fixed; pages "
    "that it has not touched do not count."
)


class Found(NamedTuple):
    start_s: float
    start_cpu_s: float
    idle_mb: float
    peak_mb: float
    produce_s_per_gb: float
    consume_s_per_gb: float


def run(arena: Arena) -> list[Line]:
    arena.notes.append(NOTE)
    messages = arena.size(500_000, 20_000)
    rounds: list[Both[Found]] = []
    with ExitStack() as stack:
        (load,) = loads(stack, 1)
        for number in range(arena.rounds):
            with scratch() as directory:
                sides = arena.contestants(directory, may_freeze=False)
                seen: dict[str, Found] = {}
                for side in sides if number % 2 == 0 else sides[::-1]:
                    seen[side.name] = measure(load, messages, side)
                rounds.append(both_of(sides, seen))
    return [
        _line(rounds, "start to first produce", "s", 0, target=TARGET),
        _line(rounds, "CPU of a start", "s", 1),
        _line(rounds, "memory when idle", "MB", 2, target=TARGET),
        _line(rounds, "memory under load", "MB", 3, target=TARGET),
        _line(rounds, "broker CPU, produce 1 KB, cold", "s/GB", 4),
        _line(rounds, "broker CPU, consume 1 KB, cold", "s/GB", 5),
    ]


def _line(
    rounds: list[Both[Found]], name: str, unit: str, field: int, *, target: float = 1.0
) -> Line:
    return Line(
        name=name,
        unit=unit,
        rounds=tuple(each.pair(partial(_field, field)) for each in rounds),
        more_is_better=False,
        target=target,
    )


def _field(field: int, found: Found) -> float:
    return found[field]


def measure(load: Load, messages: int, side: Contestant) -> Found:
    try:
        start_s = side.start()
        start_cpu_s = side.cpu_s
        time.sleep(IDLE_S)
        idle_mb = side.rss_bytes / 1e6
        make_topic("load", PARTITIONS, side)
        with PeakMemory(side.pid) as memory:
            costs = [_cost(load, job, messages, side) for job in ("produce", "consume")]
    finally:
        side.kill()
    return Found(start_s, start_cpu_s, idle_mb, memory.peak_bytes / 1e6, *costs)


def _cost(load: Load, job: str, messages: int, side: Contestant) -> float:
    """CPU seconds of the broker for a GB."""
    before = side.cpu_s
    moved = load.moved(
        job,
        bootstrap=side.bootstrap,
        topic="load",
        partitions=PARTITIONS,
        value_bytes=VALUE_BYTES,
        messages=messages,
    )
    return (side.cpu_s - before) / (moved.bytes / 1e9)
