"""Replicas onto brokers: even, spread over racks, led by somebody who is there."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerstone.errors import InvalidReplicationFactor
from ledgerstone.metadata.image import BrokerImage
from ledgerstone.metadata.placement import place_replicas
from ledgerstone.sim.dice import SeededDice


def _brokers(*racks: str | None, fenced: tuple[int, ...] = ()) -> dict[int, BrokerImage]:
    """Brokers 0, 1, … each in the rack named at its place."""
    return {
        number: BrokerImage(
            broker_id=number,
            broker_epoch=0,
            incarnation_id=bytes(16),
            endpoints=(),
            rack=rack,
            fenced=number in fenced,
        )
        for number, rack in enumerate(racks)
    }


def _place(
    brokers: dict[int, BrokerImage], partitions: int, factor: int, seed: int = 0
) -> list[tuple[int, ...]]:
    return place_replicas(
        brokers, partitions=partitions, replication_factor=factor, dice=SeededDice(seed)
    )


def test_one_broker_gets_everything() -> None:
    assert _place(_brokers(None), 3, 1) == [(0,), (0,), (0,)]


def test_leaders_and_replicas_are_spread_evenly() -> None:
    placed = _place(_brokers(None, None, None, None), 8, 3)

    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {6}


def test_the_replicas_of_a_partition_stand_in_different_racks() -> None:
    racks = ("a", "b", "c", "a", "b", "c")

    placed = _place(_brokers(*racks), 12, 3)

    assert all({racks[broker] for broker in replicas} == {"a", "b", "c"} for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}


def test_where_the_first_partition_goes_is_left_to_chance() -> None:
    brokers = _brokers(None, None, None)

    firsts = {_place(brokers, 1, 1, seed)[0][0] for seed in range(20)}

    assert firsts == {0, 1, 2}


def test_a_fenced_broker_is_taken_last() -> None:
    brokers = _brokers(None, None, None, fenced=(1,))

    assert all(1 not in replicas for replicas in _place(brokers, 6, 2))
    assert all(replicas[2] == 1 for replicas in _place(brokers, 6, 3))


@pytest.mark.parametrize(
    ("brokers", "factor"),
    [(_brokers(None, None), 3), (_brokers(None, fenced=(0,)), 1), (_brokers(), 1)],
)
def test_an_unreachable_factor_is_refused(brokers: dict[int, BrokerImage], factor: int) -> None:
    with pytest.raises(InvalidReplicationFactor):
        _place(brokers, 1, factor)


@settings(max_examples=100, deadline=None)
@given(
    racks=st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=8),
    fenced=st.sets(st.integers(1, 7)),
    partitions=st.integers(1, 20),
    factor=st.integers(1, 8),
    seed=st.integers(0, 1000),
)
def test_every_partition_gets_different_brokers_and_an_active_leader(
    racks: list[str | None], fenced: set[int], partitions: int, factor: int, seed: int
) -> None:
    brokers = _brokers(*racks, fenced=tuple(fenced))
    factor = min(factor, len(racks))

    placed = _place(brokers, partitions, factor, seed)

    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert brokers[replicas[0]].is_active
