"""Which brokers get a new partition's replicas. Pure; chance is handed in.

Striped, as Kafka does it: the racks take turns, the brokers of a rack take turns, and each
partition starts one turn later than the one before, so leaders and replicas spread evenly.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ledgerstone.clock import Dice
from ledgerstone.errors import InvalidReplicationFactor
from ledgerstone.metadata.image import BrokerImage

T = TypeVar("T")


class _Rack(NamedTuple):
    active: list[int]
    fenced: list[int]


def place_replicas(
    brokers: Mapping[int, BrokerImage], *, partitions: int, replication_factor: int, dice: Dice
) -> list[tuple[int, ...]]:
    """The replicas of each partition, the preferred leader first and never a fenced broker."""
    _check_factor(brokers, replication_factor)
    racks = _racks(brokers, dice)
    first_turn = dice.below(len(racks))
    return [
        _one_partition(racks, turn, replication_factor)
        for turn in range(first_turn, first_turn + partitions)
    ]


def _check_factor(brokers: Mapping[int, BrokerImage], replication_factor: int) -> None:
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor} is more than the {len(brokers)} broker(s)"
            " that are registered"
        )
    if not any(broker.is_active for broker in brokers.values()):
        raise InvalidReplicationFactor(
            f"all {len(brokers)} registered broker(s) are fenced or shutting down"
        )


def _racks(brokers: Mapping[int, BrokerImage], dice: Dice) -> list[_Rack]:
    by_name: dict[str, _Rack] = {}
    for broker_id, broker in sorted(brokers.items()):
        # Brokers that name no rack stand in one of their own.
        rack = by_name.setdefault(broker.rack or "", _Rack([], []))
        (rack.active if broker.is_active else rack.fenced).append(broker_id)
    # A start of its own for each rack, else the first broker of each would always meet the others'.
    return [
        _Rack(_shifted(rack.active, dice), _shifted(rack.fenced, dice))
        for _, rack in sorted(by_name.items())
    ]


def _shifted(numbers: list[int], dice: Dice) -> list[int]:
    return list(_rotated(numbers, dice.below(len(numbers)))) if numbers else []


def _one_partition(racks: Sequence[_Rack], turn: int, replication_factor: int) -> tuple[int, ...]:
    order = _rotated(racks, turn)
    inner = turn // len(racks)
    active = _interleaved([_rotated(rack.active, inner) for rack in order])
    fenced = _interleaved([_rotated(rack.fenced, inner) for rack in order])
    return (*active, *fenced)[:replication_factor]


def _rotated(items: Sequence[T], by: int) -> Sequence[T]:
    if not items:
        return items
    start = by % len(items)
    return [*items[start:], *items[:start]]


def _interleaved(lanes: Sequence[Sequence[int]]) -> Iterator[int]:
    """The first of every lane, then the second of every lane, and so on."""
    for depth in range(max(map(len, lanes))):
        yield from (lane[depth] for lane in lanes if depth < len(lane))
