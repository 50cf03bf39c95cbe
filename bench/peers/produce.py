"""Produce with librdkafka: sizes of records, acks, partitions, codecs. Shell."""

from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Final, NamedTuple

from bench.peers.arena import Arena, Both, Spent
from bench.peers.contestants import Contestant
from bench.peers.load import Load, loads
from bench.peers.measures import Line
from bench.peers.topics import make_topic

GB: Final = 1e9
# Records a measurement writes, and MB of them: enough for some tenths of a second.
MESSAGES: Final = {100: 300_000, 1000: 150_000, 10_000: 20_000}
QUICK_SHARE: Final = 20
WARM_UP_STEP: Final = 5  # every fifth case is run once before anything counts
PARTITIONS: Final = (1, 6, 100)
QUICK_PARTITIONS: Final = (1, 100)
NOTE: Final = (
    "librdkafka through confluent-kafka in a process of its own, linger 10 ms. Below some 1 KB the "
    "client's own loop is the limit, which makes rates alike; what differs then is the CPU."
)


class Case(NamedTuple):
    value_bytes: int
    acks: str
    partitions: int
    codec: str

    @property
    def label(self) -> str:
        return (
            f"produce {self.value_bytes} B, acks={self.acks}, "
            f"{partitions_text(self.partitions)}, {self.codec}"
        )


def partitions_text(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def cases(*, quick: bool) -> list[Case]:
    partitions = QUICK_PARTITIONS if quick else PARTITIONS
    return [Case(*each) for each in product(MESSAGES, ("1", "all"), partitions, ("none", "lz4"))]


def run(arena: Arena) -> list[Line]:
    arena.notes.append(NOTE)
    with ExitStack() as stack:
        (load,) = loads(stack, 1)
        turns = stack.enter_context(arena.both())
        wanted = cases(quick=arena.quick)
        for count in sorted({case.partitions for case in wanted}):
            turns.each(partial(make_topic, f"topic-{count}", count))
        share = QUICK_SHARE if arena.quick else 1
        for case in wanted[::WARM_UP_STEP]:
            turns.each(partial(measure, load, case, share))
        found: dict[Case, list[Both[Spent]]] = {case: [] for case in wanted}
        for number in range(arena.rounds):
            for case in wanted:
                found[case].append(turns.round(number, partial(measure, load, case, share)))
    return [line_of(case.label, case.value_bytes, rounds) for case, rounds in found.items()]


def measure(load: Load, case: Case, share: int, side: Contestant) -> Spent:
    before = side.cpu_s
    moved = load.moved(
        "produce",
        bootstrap=side.bootstrap,
        topic=f"topic-{case.partitions}",
        partitions=case.partitions,
        value_bytes=case.value_bytes,
        messages=MESSAGES[case.value_bytes] // share,
        acks=case.acks,
        codec=case.codec,
    )
    return Spent(moved.mb_s, side.cpu_s - before, moved.bytes / GB)


def line_of(name: str, value_bytes: int, rounds: list[Both[Spent]]) -> Line:
    return Line(
        name=name,
        unit="MB/s",
        rounds=tuple(each.pair(lambda spent: spent.value) for each in rounds),
        cpu=tuple(each.pair(lambda spent: spent.cpu_per_unit) for each in rounds),
        cpu_unit="s/GB",
        record_bytes=value_bytes,
    )
