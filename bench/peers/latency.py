"""Latency at a thousand records a second: until acknowledged, and until consumed. Shell."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple

from bench.peers.arena import Arena, Both
from bench.peers.contestants import Contestant
from bench.peers.load import Load, loads
from bench.peers.measures import Line
from bench.peers.percentiles import Percentiles
from bench.peers.topics import make_topic

RATE: Final = 1000
TARGET: Final = 2.0
# Long enough for a JVM to compile what this load runs through.
WARM_UP_S: Final = 8.0
JOBS: Final = {"produce": "produce_latency", "produce to consume": "end_to_end_latency"}
NOTE: Final = (
    "1,000 records of 100 B a second, acks=all, no lingering; each is sent when it is due, "
    "whatever became of those before. CPU is of the broker, for a second of this load."
)
FIGURES: Final[dict[str, Callable[[Percentiles], float]]] = {
    "p50": lambda taken: taken.p50,
    "p99": lambda taken: taken.p99,
    "p99.9": lambda taken: taken.p999,
}


class Answered(NamedTuple):
    taken: Percentiles
    cpu_ms_per_s: float


def run(arena: Arena) -> list[Line]:
    arena.notes.append(NOTE)
    seconds, warm_up_s = (1.0, 1.0) if arena.quick else (6.0, WARM_UP_S)
    lines = []
    with ExitStack() as stack:
        (load,) = loads(stack, 1)
        turns = stack.enter_context(arena.both())
        turns.each(partial(make_topic, "latency", 1))
        for name, job in JOBS.items():
            turns.each(partial(measure, load, job, warm_up_s))
            work = partial(measure, load, job, seconds)
            lines += lines_of(name, [turns.round(n, work) for n in range(arena.rounds)])
    return lines


def measure(load: Load, job: str, seconds: float, side: Contestant) -> Answered:
    before = side.cpu_s
    taken = load.latency(job, bootstrap=side.bootstrap, topic="latency", rate=RATE, seconds=seconds)
    return Answered(taken, (side.cpu_s - before) * 1000 / seconds)


def lines_of(name: str, rounds: list[Both[Answered]]) -> list[Line]:
    cpu = tuple(each.pair(lambda found: found.cpu_ms_per_s) for each in rounds)
    return [
        Line(
            name=f"{name} latency {label}",
            unit="µs",
            rounds=tuple(each.pair(partial(_taken, figure)) for each in rounds),
            more_is_better=False,
            target=TARGET,
            cpu=cpu if label == "p50" else (),
            cpu_unit="ms/s",
        )
        for label, figure in FIGURES.items()
    ]


def _taken(figure: Callable[[Percentiles], float], found: Answered) -> float:
    return figure(found.taken)
