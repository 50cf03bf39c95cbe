"""Where the contest is held: one scratch directory, who takes part, whose turn it is. Shell.

Only one broker runs at any time. Where many short measurements alternate, both are started once and
the one whose turn it is not is frozen with SIGSTOP: it costs nothing, and Kafka's machine code
stays warm, as it would be in a broker that has been up for a while. Turns swap with each round.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from bench.peers.contestants import Contestant, Kafka, Ledgerstone
from bench.peers.measures import Pair
from bench.storage import scratch
from golden.kafka_tools import KafkaJars

# A thawed broker first does what its timers have been waiting for.
SETTLE_S: Final = 0.15

T = TypeVar("T")


class Both(NamedTuple, Generic[T]):
    """What a round found on either side; `theirs` is None where there is no Apache Kafka."""

    ours: T
    theirs: T | None

    def pair(self, figure: Callable[[T], float]) -> Pair:
        return Pair(figure(self.ours), None if self.theirs is None else figure(self.theirs))


class Spent(NamedTuple):
    """A figure, and the CPU seconds its broker spent meanwhile for `size` units of work."""

    value: float
    cpu_s: float = 0.0
    size: float = 1.0

    @property
    def cpu_per_unit(self) -> float:
        return self.cpu_s / self.size


@dataclass(slots=True)
class Arena:
    """What a section is run with, and where it leaves its remarks."""

    jars: KafkaJars | None
    rounds: int
    quick: bool
    notes: list[str] = field(default_factory=list)

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def contestants(self, directory: Path, *, may_freeze: bool) -> list[Contestant]:
        """Prepared, not started; Ledgerstone first."""
        found: list[Contestant] = [
            Ledgerstone(directory=directory / "ledgerstone", may_freeze=may_freeze)
        ]
        if self.jars is not None:
            found.append(
                Kafka(directory=directory / "kafka", jars=self.jars, may_freeze=may_freeze)
            )
        for each in found:
            each.prepare()
        return found

    @contextmanager
    def alone(self, *, prefers_kafka: bool = False) -> Iterator[Contestant]:
        """One broker for clients that are compared with each other."""
        with scratch() as directory:
            every = self.contestants(directory, may_freeze=False)
            with started(every[-1] if prefers_kafka else every[0]) as chosen:
                yield chosen

    @contextmanager
    def both(self) -> Iterator["Turns"]:
        """Both started, all frozen between turns."""
        with scratch() as directory:
            every = self.contestants(directory, may_freeze=True)
            try:
                for each in every:
                    each.start()
                    each.freeze()
                yield Turns(every)
            finally:
                for each in every:
                    each.kill()


@dataclass(slots=True)
class Turns:
    contestants: list[Contestant]

    @contextmanager
    def turn(self, contestant: Contestant) -> Iterator[Contestant]:
        contestant.thaw()
        time.sleep(SETTLE_S)
        try:
            yield contestant
        finally:
            contestant.freeze()

    def each(self, work: Callable[[Contestant], T]) -> list[T]:
        """What is done on every side and not compared: topics, warming up."""
        found = []
        for contestant in self.contestants:
            with self.turn(contestant):
                found.append(work(contestant))
        return found

    def round(self, number: int, work: Callable[[Contestant], T]) -> Both[T]:
        """The same work on either side; who goes first changes with the number."""
        order = self.contestants if number % 2 == 0 else self.contestants[::-1]
        found: dict[str, T] = {}
        for contestant in order:
            with self.turn(contestant):
                found[contestant.name] = work(contestant)
        return both_of(self.contestants, found)


def both_of(contestants: list[Contestant], found: dict[str, T]) -> Both[T]:
    theirs = found[contestants[1].name] if len(contestants) > 1 else None
    return Both(found[contestants[0].name], theirs)


@contextmanager
def started(contestant: Contestant) -> Iterator[Contestant]:
    try:
        contestant.start()
        yield contestant
    finally:
        contestant.kill()
