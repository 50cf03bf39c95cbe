"""Which brokers get a new partition's replicas. Pure; chance is handed in.

Striped, as Kafka does it: the racks take turns, the brokers of a rack take turns, and each
partition starts one turn later than the one before. Once there are as many partitions as active
brokers everything is shuffled, so that the same brokers do not meet again. Rules in README.md.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ledgerstone.clock import Dice
from ledgerstone.errors import InvalidReplicationFactor
from ledgerstone.metadata.even_leaders import even_leaders
from ledgerstone.metadata.image import BrokerImage

T = TypeVar("T")


def place_replicas(
    brokers: Mapping[int, BrokerImage], *, partitions: int, replication_factor: int, dice: Dice
) -> list[tuple[int, ...]]:
    """The replicas of each partition, the preferred leader first and never a fenced broker."""
    usable = {
        broker_id: broker
        for broker_id, broker in brokers.items()
        if not broker.in_controlled_shutdown and broker.takes_new_replicas
    }
    _check_factor(usable, replication_factor)
    racks = _Racks(usable, dice)
    placed = [racks.place(replication_factor) for _ in range(partitions)]
    return _with_even_leaders(placed, usable)


def _check_factor(usable: Mapping[int, BrokerImage], replication_factor: int) -> None:
    if replication_factor > len(usable):
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor} is more than the {len(usable)} broker(s)"
            " that are registered and take new replicas"
        )
    if all(broker.fenced for broker in usable.values()):
        raise InvalidReplicationFactor(f"all {len(usable)} registered broker(s) are fenced")


def _with_even_leaders(
    placed: Sequence[tuple[int, ...]], brokers: Mapping[int, BrokerImage]
) -> list[tuple[int, ...]]:
    active = [[each for each in replicas if not brokers[each].fenced] for replicas in placed]
    return [
        (leader, *(each for each in replicas if each != leader))
        for leader, replicas in zip(even_leaders(active), placed, strict=True)
    ]


class _Lane:
    """Brokers of a rack that take turns. Each partition (`turn`) starts one further."""

    __slots__ = ("_brokers", "_given", "_start", "_turn")

    def __init__(self, brokers: list[int], dice: Dice) -> None:
        self._brokers = brokers
        self._start = dice.below(len(brokers)) if brokers else 0
        self._turn = 0
        self._given = 0

    def next(self, turn: int) -> int | None:
        """None once every broker was given in this turn."""
        if turn != self._turn:
            self._turn = turn
            self._given = 0
            self._start += 1
        if self._given == len(self._brokers):
            return None
        self._given += 1
        return self._brokers[(self._start + self._given - 1) % len(self._brokers)]

    def shuffle(self, dice: Dice) -> None:
        _shuffle(self._brokers, dice)


class _Rack:
    __slots__ = ("active", "fenced")

    def __init__(self, brokers: Sequence[BrokerImage], dice: Dice) -> None:
        self.active = _Lane(sorted(each.broker_id for each in brokers if not each.fenced), dice)
        self.fenced = _Lane(sorted(each.broker_id for each in brokers if each.fenced), dice)

    def next(self, turn: int) -> int | None:
        active = self.active.next(turn)
        return self.fenced.next(turn) if active is None else active


class _Racks:
    """Invariant: at least one broker is active, so a leader is always found."""

    __slots__ = ("_active_count", "_dice", "_first", "_racks", "_turn")

    def __init__(self, brokers: Mapping[int, BrokerImage], dice: Dice) -> None:
        by_name: dict[str, list[BrokerImage]] = {}
        for broker in brokers.values():
            # Brokers that name no rack stand in one of their own.
            by_name.setdefault(broker.rack or "", []).append(broker)
        self._racks = [_Rack(rack, dice) for _, rack in sorted(by_name.items())]
        self._first = dice.below(len(self._racks))
        self._active_count = sum(not broker.fenced for broker in brokers.values())
        self._turn = 0
        self._dice = dice

    def place(self, replication_factor: int) -> tuple[int, ...]:
        if self._turn and self._active_count > 1 and self._turn % self._active_count == 0:
            self._shuffle()
        first = self._first % len(self._racks)
        leader_rack, leader = self._leader(first)
        replicas = [leader]
        rack = first
        skips_leader_rack = True
        while len(replicas) < replication_factor:
            if skips_leader_rack and rack == leader_rack:
                # Its turn was the leader.
                skips_leader_rack = False
            else:
                broker_id = self._racks[rack].next(self._turn)
                replicas += [] if broker_id is None else [broker_id]
            rack = (rack + 1) % len(self._racks)
        self._turn += 1
        self._first = first + 1
        return tuple(replicas)

    def _leader(self, first: int) -> tuple[int, int]:
        """The first rack from there on that has an active broker, and its next one."""
        for step in range(len(self._racks)):
            rack = (first + step) % len(self._racks)
            broker_id = self._racks[rack].active.next(self._turn)
            if broker_id is not None:
                return rack, broker_id
        raise AssertionError("no rack has an active broker")

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._dice)
        for rack in self._racks:
            rack.active.shuffle(self._dice)
            rack.fenced.shuffle(self._dice)


def _shuffle(items: list[T], dice: Dice) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = dice.below(last + 1)
        items[last], items[other] = items[other], items[last]
