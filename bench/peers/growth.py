"""What more costs: more data, more partitions, more connections. Shell."""

from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple

from bench.peers.arena import Arena, Both
from bench.peers.contestants import Contestant
from bench.peers.load import Load, loads
from bench.peers.measures import Line
from bench.peers.topics import make_topic

VALUE_BYTES: Final = 1000
MIB: Final = 1 << 20
SIZES_MIB: Final = (256, 1024, 4096)
QUICK_SIZES_MIB: Final = (16, 64)
PARTITIONS: Final = (10, 100, 1000)
CONNECTIONS: Final = (1, 10, 100)
DATA_ROUNDS: Final = 2
NOTE: Final = (
    "1 KB records with librdkafka. Data goes to six partitions of brokers started for it, two "
    "rounds; partitions and connections share 150,000 records. A topic is made when every one of "
    "its partitions has acknowledged a record. Memory is resident, after the load."
)


class Grown(NamedTuple):
    mb_s: float
    cpu_s_per_gb: float
    rss_mb: float
    made_s: float


def run(arena: Arena) -> list[Line]:
    arena.notes.append(NOTE)
    with ExitStack() as stack:
        (load,) = loads(stack, 1)
        return [
            *_data(arena, load),
            *_partitions(arena, load),
            *_connections(arena, load),
        ]


def _data(arena: Arena, load: Load) -> list[Line]:
    lines = []
    for mib in QUICK_SIZES_MIB if arena.quick else SIZES_MIB:
        rounds = []
        for number in range(min(DATA_ROUNDS, arena.rounds)):
            with arena.both() as turns:
                messages = mib * MIB // VALUE_BYTES
                turns.each(partial(measure, load, "warm", 6, 20_000, 1))
                work = partial(measure, load, "data", 6, messages, 1)
                rounds.append(turns.round(number, work))
        lines += lines_of(f"{mib / 1024:g} GiB", rounds)
    return lines


def _partitions(arena: Arena, load: Load) -> list[Line]:
    messages = arena.size(150_000, 10_000)
    lines = []
    with arena.both() as turns:
        turns.each(partial(measure, load, "warm", 6, messages, 1))
        for count in PARTITIONS[: 2 if arena.quick else 3]:
            rounds = [
                turns.round(n, partial(measure, load, f"p{count}-{n}", count, messages, 1))
                for n in range(arena.rounds)
            ]
            lines += lines_of(f"{count} partitions", rounds, with_making=True)
    return lines


def _connections(arena: Arena, load: Load) -> list[Line]:
    messages = arena.size(150_000, 10_000)
    lines = []
    with arena.both() as turns:
        turns.each(partial(measure, load, "warm", 6, messages, 1))
        for count in CONNECTIONS[: 2 if arena.quick else 3]:
            rounds = [
                turns.round(n, partial(measure, load, f"c{count}-{n}", 6, messages, count))
                for n in range(arena.rounds)
            ]
            label = "1 connection" if count == 1 else f"{count} connections"
            lines += lines_of(label, rounds)
    return lines


def measure(
    load: Load, topic: str, partitions: int, messages: int, producers: int, side: Contestant
) -> Grown:
    made_s = make_topic(topic, partitions, side)
    before = side.cpu_s
    moved = load.moved(
        "produce",
        bootstrap=side.bootstrap,
        topic=topic,
        partitions=partitions,
        value_bytes=VALUE_BYTES,
        messages=messages,
        producers=producers,
    )
    cpu_s = side.cpu_s - before
    return Grown(moved.mb_s, cpu_s / (moved.bytes / 1e9), side.rss_bytes / 1e6, made_s)


def lines_of(label: str, rounds: list[Both[Grown]], *, with_making: bool = False) -> list[Line]:
    lines = [
        Line(
            name=f"{label}: produce",
            unit="MB/s",
            rounds=tuple(each.pair(lambda found: found.mb_s) for each in rounds),
            cpu=tuple(each.pair(lambda found: found.cpu_s_per_gb) for each in rounds),
            cpu_unit="s/GB",
            record_bytes=VALUE_BYTES,
        ),
        Line(
            name=f"{label}: memory",
            unit="MB",
            rounds=tuple(each.pair(lambda found: found.rss_mb) for each in rounds),
            more_is_better=False,
            target=2.0,
        ),
    ]
    if with_making:
        lines.append(
            Line(
                name=f"{label}: topic made",
                unit="s",
                rounds=tuple(each.pair(lambda found: found.made_s) for each in rounds),
                more_is_better=False,
            )
        )
    return lines
