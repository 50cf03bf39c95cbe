"""Replicas onto brokers: even, spread over racks, led by somebody who is there."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import InvalidReplicationFactor
from ledgerstone.metadata.even_leaders import even_leaders
from ledgerstone.metadata.image import BrokerImage
from ledgerstone.metadata.placement import place_replicas
from ledgerstone.sim.dice import SeededDice
from tests.kit.sized import examples


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


def test_68_two_racks_of_different_sizes() -> None:
    """Racks a, a, b: every partition spans both, and each broker leads as often as the others."""
    racks = ("a", "a", "b")

    for seed in range(20):
        placed = _place(_brokers(*racks), 30, 2, seed)

        assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in placed)
        assert _spread([replicas[0] for replicas in placed], range(3)) <= 1


def test_a_fenced_broker_stands_in_for_its_rack_but_does_not_lead() -> None:
    racks = ("a", "a", "b")

    placed = _place(_brokers(*racks, fenced=(2,)), 6, 2)

    assert all(replicas[0] in (0, 1) and replicas[1] == 2 for replicas in placed)


def test_a_broker_that_shuts_down_or_has_only_cordoned_directories_gets_nothing() -> None:
    brokers = _brokers(None, None, None)
    brokers[0] = replace(brokers[0], in_controlled_shutdown=True)
    brokers[1] = replace(brokers[1], log_dirs=(b"d" * 16,), cordoned_log_dirs=(b"d" * 16,))

    assert _place(brokers, 2, 1) == [(2,), (2,)]
    with pytest.raises(InvalidReplicationFactor):
        _place(brokers, 1, 2)


@examples(100)
@given(count=st.integers(3, 8), factor=st.integers(2, 3), seed=st.integers(0, 1000))
def test_no_two_partitions_of_a_round_have_the_same_replicas_in_the_same_order(
    count: int, factor: int, seed: int
) -> None:
    placed = _place(_brokers(*[None] * count), count, factor, seed)

    assert len({replicas[:2] for replicas in placed}) == count


@examples(100)
@given(
    racks=st.lists(st.sampled_from("abc"), min_size=2, max_size=9),
    partitions=st.integers(1, 60),
    factor=st.integers(2, 4),
    seed=st.integers(0, 1000),
)
def test_every_partition_spans_as_many_racks_as_it_can(
    racks: list[str], partitions: int, factor: int, seed: int
) -> None:
    factor = min(factor, len(racks))

    placed = _place(_brokers(*racks), partitions, factor, seed)

    for replicas in placed:
        assert len({racks[broker] for broker in replicas}) == min(factor, len(set(racks)))


@examples(100)
@given(
    racks=st.integers(1, 4),
    size=st.integers(1, 4),
    partitions=st.integers(1, 60),
    factor=st.integers(2, 4),
    seed=st.integers(0, 1000),
)
def test_leaders_are_even_where_racks_are(
    racks: int, size: int, partitions: int, factor: int, seed: int
) -> None:
    names = [str(number % racks) for number in range(racks * size)]
    factor = min(factor, len(names))

    placed = _place(_brokers(*names), partitions, factor, seed)

    if factor > 1:
        assert _spread([replicas[0] for replicas in placed], range(len(names))) <= 1


@examples(100)
@given(
    candidates=st.lists(
        st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True), max_size=7
    )
)
def test_leaders_are_as_even_as_any_choice_makes_them(candidates: list[list[int]]) -> None:
    """Compared with every choice there is, by the sum of squares: the evenest has the least."""
    chosen = even_leaders(candidates)

    assert all(leader in each for leader, each in zip(chosen, candidates, strict=True))
    assert _squares(chosen) == min(_squares(choice) for choice in product(*candidates))


def _squares(leaders: Iterable[int]) -> int:
    return sum(times * times for times in Counter(leaders).values())


def _spread(leaders: list[int], brokers: range) -> int:
    times = Counter(leaders)
    counts = [times[broker] for broker in brokers]
    return max(counts) - min(counts)


@pytest.mark.parametrize(
    ("brokers", "factor"),
    [(_brokers(None, None), 3), (_brokers(None, fenced=(0,)), 1), (_brokers(), 1)],
)
def test_an_unreachable_factor_is_refused(brokers: dict[int, BrokerImage], factor: int) -> None:
    with pytest.raises(InvalidReplicationFactor):
        _place(brokers, 1, factor)


@examples(100)
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
