"""kill -9 with a gibibyte in a hundred partitions, and back until all of them take records. Shell.

Each side is filled and killed once; that directory is put back before every start, so that every
start has the same to recover.
"""

from contextlib import ExitStack
from functools import partial
from typing import Final

from bench.peers.arena import Arena, Both, Spent, both_of
from bench.peers.contestants import Contestant, Kafka, restored
from bench.peers.load import loads
from bench.peers.measures import Line
from bench.peers.topics import filled
from bench.storage import scratch

TOPIC: Final = "killed"
PARTITIONS: Final = 100
VALUE_BYTES: Final = 1000
NOTE: Final = (
    "From the start of the process until each of the 100 partitions acknowledged a record; files "
    "in the page cache, nothing was flushed before the kill. Kafka waits until its own controller "
    "gives up the session of the broker that died, 9 s by default; the second line shortens that "
    "session to 1 s, so that it shows the recovery rather than the wait."
)
SHORT_SESSION: Final = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}


def run(arena: Arena) -> list[Line]:
    size = arena.size(1 << 30, 1 << 26)
    arena.notes.append(NOTE)
    with ExitStack() as stack:
        directory = stack.enter_context(scratch())
        (load,) = loads(stack, 1)
        sides = arena.contestants(directory, may_freeze=False)
        fill = filled(
            load,
            topic=TOPIC,
            partitions=PARTITIONS,
            value_bytes=VALUE_BYTES,
            messages=size // VALUE_BYTES,
        )
        for side in sides:
            try:
                side.start()
                fill(side)
            finally:
                side.kill()
            side.data.rename(side.directory / "saved")
        label = f"restart after kill -9, {size / (1 << 30):g} GiB in {PARTITIONS} partitions"
        lines = [_line(label, _rounds(sides, arena.rounds))]
        for side in sides:
            if isinstance(side, Kafka):
                side.settings = SHORT_SESSION
                side.write_properties()
                lines.append(_line(f"{label}, short session", _rounds(sides, arena.rounds)))
    return lines


def _rounds(sides: list[Contestant], count: int) -> list[Both[Spent]]:
    rounds = []
    for number in range(count):
        order = sides if number % 2 == 0 else sides[::-1]
        rounds.append(both_of(sides, {side.name: measure(side) for side in order}))
    return rounds


def _line(name: str, rounds: list[Both[Spent]]) -> Line:
    return Line(
        name=name,
        unit="s",
        rounds=tuple(each.pair(lambda spent: spent.value) for each in rounds),
        more_is_better=False,
        cpu=tuple(each.pair(lambda spent: spent.cpu_s) for each in rounds),
        cpu_unit="s",
    )


def measure(side: Contestant) -> Spent:
    restored(side, side.directory / "saved")
    try:
        seconds = side.start(partial(side.accepts_produce, TOPIC, PARTITIONS))
        return Spent(seconds, side.cpu_s)
    finally:
        side.kill()
