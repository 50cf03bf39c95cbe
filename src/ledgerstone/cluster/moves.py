"""Which replicas go where when brokers come and go. Pure.

A plan evens out two counts: replicas, and preferred leaders (the first replica of a partition).
It moves as little as it can, keeps every replication factor, and never puts the replicas of a
partition on fewer racks than before.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ledgerstone.errors import LedgerstoneError


class CannotMove(LedgerstoneError):
    """A replica has nowhere to go."""


class BrokerPlace(NamedTuple):
    id: int
    rack: str | None = None


class AssignedPartition(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[int, ...]  # in order of preference


class Move(NamedTuple):
    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def copies(self) -> int:
        """Replicas that have to be filled; 0 if only the order changes."""
        return len(set(self.after) - set(self.before))


def plan_drain(
    brokers: Sequence[BrokerPlace], partitions: Iterable[AssignedPartition], leaving: int
) -> list[Move]:
    """Every replica of one broker goes to the others."""
    plan = _Plan([each for each in brokers if each.id != leaving], partitions)
    for key in [key for key, replicas in plan.after.items() if leaving in replicas]:
        plan.replace(key, leaving)
    plan.even_newcomers()
    return plan.moves()


def plan_spread(
    brokers: Sequence[BrokerPlace], partitions: Iterable[AssignedPartition], onto: Sequence[int]
) -> list[Move]:
    """New brokers get their share of replicas and of leaderships."""
    plan = _Plan(brokers, partitions)
    total = sum(map(len, plan.after.values()))
    share = total // len(brokers)
    while onto:
        target = min(onto, key=lambda each: (plan.replicas[each], each))
        if plan.replicas[target] >= share or not plan.take_for(target):
            break
    plan.even_leaders()
    return plan.moves()


def plan_factor(
    brokers: Sequence[BrokerPlace], partitions: Iterable[AssignedPartition], factor: int
) -> list[Move]:
    """Partitions with fewer replicas get more, on the least loaded brokers. None loses any."""
    if factor > len(brokers):
        raise CannotMove(f"{factor} replicas need as many brokers; {len(brokers)} serve")
    plan = _Plan(brokers, partitions)
    for key, replicas in list(plan.after.items()):
        for _ in range(factor - len(replicas)):
            plan.add(key)
    plan.even_newcomers()
    return plan.moves()


_Key = tuple[str, int]


class _Plan:
    """Counts are of `after`. A broker that is not among `brokers` has none: it takes nothing."""

    def __init__(
        self, brokers: Sequence[BrokerPlace], partitions: Iterable[AssignedPartition]
    ) -> None:
        self.racks = {each.id: each.rack for each in brokers}
        self.before = {
            (each.topic, each.partition): each.replicas
            for each in sorted(partitions, key=lambda each: (each.topic, each.partition))
        }
        self.after = dict(self.before)
        self.replicas = dict.fromkeys(self.racks, 0)
        self.leaders = dict.fromkeys(self.racks, 0)
        # By broker, in order: the partitions it may give away.
        self._on: dict[int, dict[_Key, None]] = {each: {} for each in self.racks}
        for key, replicas in self.after.items():
            self._count(key, replicas, 1)

    def _count(self, key: _Key, replicas: tuple[int, ...], step: int) -> None:
        for each in replicas:
            if each in self.racks:
                self.replicas[each] += step
                if step > 0:
                    self._on[each][key] = None
                else:
                    del self._on[each][key]
        if replicas[0] in self.racks:
            self.leaders[replicas[0]] += step

    def _assign(self, key: _Key, replicas: tuple[int, ...]) -> None:
        self._count(key, self.after[key], -1)
        self.after[key] = replicas
        self._count(key, replicas, 1)

    def moves(self) -> list[Move]:
        return [
            Move(*key, self.before[key], after)
            for key, after in self.after.items()
            if after != self.before[key]
        ]

    # -- a broker leaves ------------------------------------------------------------------------

    def replace(self, key: _Key, leaving: int) -> None:
        """The least loaded broker takes the place, one on a rack of its own before others."""
        replicas = self.after[key]
        others = [each for each in replicas if each != leaving]
        candidates = [each for each in self.racks if each not in replicas]
        if not candidates:
            raise CannotMove(
                f"{key[0]}-{key[1]} has {len(replicas)} replicas, and {len(self.racks)} brokers "
                f"would be left without broker {leaving}: add a broker first"
            )
        used = {self.racks.get(each) for each in others} - {None}
        newcomer = min(
            candidates, key=lambda each: (self.racks[each] in used, self.replicas[each], each)
        )
        after = tuple(newcomer if each == leaving else each for each in replicas)
        if replicas[0] == leaving:
            after = _led_by(after, min(after, key=lambda each: (self.leaders.get(each, 0), each)))
        self._assign(key, after)

    def add(self, key: _Key) -> None:
        replicas = self.after[key]
        used = {self.racks.get(each) for each in replicas} - {None}
        newcomer = min(
            (each for each in self.racks if each not in replicas),
            key=lambda each: (self.racks[each] in used, self.replicas[each], each),
        )
        self._assign(key, (*replicas, newcomer))

    def even_newcomers(self) -> None:
        """Partition by partition the choice was good; together it may not be."""
        changed = True
        while changed:
            changed = False
            for key, replicas in self.after.items():
                for newcomer in sorted(set(replicas) - set(self.before[key])):
                    now = self.after[key]
                    better = self._better_than(newcomer, now)
                    if better is not None:
                        changed = True
                        self._assign(
                            key, tuple(better if each == newcomer else each for each in now)
                        )

    def _better_than(self, newcomer: int, replicas: tuple[int, ...]) -> int | None:
        """Each such exchange brings two counts closer, so there is a last one."""
        candidates = [
            each
            for each in self.racks
            if each not in replicas
            and self.replicas[each] + 1 < self.replicas[newcomer]
            and self._keeps_racks(replicas, newcomer, each)
        ]
        return min(candidates, key=lambda each: (self.replicas[each], each), default=None)

    # -- a broker comes -------------------------------------------------------------------------

    def take_for(self, target: int) -> bool:
        """One replica of the fullest broker that has one to give; False if none has."""
        donors = sorted(self.racks, key=lambda each: (-self.replicas[each], each))
        wants_to_lead = self.leaders[target] < len(self.after) // len(self.racks)
        for donor in donors:
            if self.replicas[donor] <= self.replicas[target] + 1:
                return False
            found = self._best(donor, target, wants_to_lead=wants_to_lead)
            if found is not None:
                replicas = self.after[found]
                self._assign(found, tuple(target if each == donor else each for each in replicas))
                return True
        return False

    def _best(self, donor: int, target: int, *, wants_to_lead: bool) -> _Key | None:
        """A partition that was not moved yet and has the wished leader is taken at once."""
        second: _Key | None = None
        for key in self._giveable(donor, target):
            is_led = self.after[key][0] == donor
            if self.after[key] == self.before[key]:
                if is_led == wants_to_lead:
                    return key
                second = second or key
        return second or next(self._giveable(donor, target), None)

    def _giveable(self, donor: int, target: int) -> Iterator[_Key]:
        for key in self._on[donor]:
            replicas = self.after[key]
            if target not in replicas and self._keeps_racks(replicas, donor, target):
                yield key

    def _keeps_racks(self, replicas: tuple[int, ...], donor: int, target: int) -> bool:
        now = {self.racks.get(each) for each in replicas}
        then = {self.racks.get(target if each == donor else each) for each in replicas}
        return len(then) >= len(now)

    def even_leaders(self) -> None:
        """Changes the order of replicas only, which copies nothing."""
        for busiest in sorted(self.racks, key=lambda each: (-self.leaders[each], each)):
            for key in list(self._on[busiest]):
                replicas = self.after[key]
                if replicas[0] != busiest:
                    continue
                idlest = min(replicas, key=lambda each: (self.leaders.get(each, 0), each))
                if self.leaders.get(idlest, 0) + 1 < self.leaders[busiest]:
                    self._assign(key, _led_by(replicas, idlest))


def _led_by(replicas: tuple[int, ...], leader: int) -> tuple[int, ...]:
    return (leader, *(each for each in replicas if each != leader))
