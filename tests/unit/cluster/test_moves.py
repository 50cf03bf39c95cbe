"""Plans of moves: what they must hold for any cluster, and some small ones in full."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.cluster.moves import (
    AssignedPartition,
    BrokerPlace,
    CannotMove,
    Move,
    plan_drain,
    plan_factor,
    plan_spread,
)


def places(*ids: int) -> list[BrokerPlace]:
    return [BrokerPlace(each) for each in ids]


def assigned(*replicas: tuple[int, ...]) -> list[AssignedPartition]:
    return [AssignedPartition("t", number, each) for number, each in enumerate(replicas)]


def applied(
    partitions: list[AssignedPartition], moves: list[Move]
) -> dict[tuple[str, int], tuple[int, ...]]:
    found = {(each.topic, each.partition): each.replicas for each in partitions}
    for move in moves:
        assert found[move.topic, move.partition] == move.before
        found[move.topic, move.partition] = move.after
    return found


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[BrokerPlace], list[AssignedPartition]]:
    count = draw(st.integers(2, 7))
    racks = draw(st.sampled_from([(None,), ("a", "b"), ("a", "b", "c")]))
    brokers = [BrokerPlace(each, racks[each % len(racks)]) for each in range(1, count + 1)]
    factor = draw(st.integers(1, min(count - 1, 4)))
    ids = [each.id for each in brokers]
    replicas = st.permutations(ids).map(lambda order: tuple(order[:factor]))
    return brokers, assigned(*draw(st.lists(replicas, max_size=30)))


@given(clusters())
def test_drained_broker_has_nothing_left(
    cluster: tuple[list[BrokerPlace], list[AssignedPartition]],
) -> None:
    brokers, partitions = cluster
    leaving = brokers[-1].id

    moves = plan_drain(brokers, partitions, leaving)

    after = applied(partitions, moves)
    for each in partitions:
        now = after[each.topic, each.partition]
        assert leaving not in now
        assert len(set(now)) == len(now) == len(each.replicas)
        # Only what was there moves, and only one copy of it.
        assert (leaving in each.replicas) == (now != each.replicas)
        assert set(each.replicas) - {leaving} <= set(now)


@given(clusters())
def test_drain_keeps_replicas_on_as_many_racks_as_are_left(
    cluster: tuple[list[BrokerPlace], list[AssignedPartition]],
) -> None:
    brokers, partitions = cluster
    leaving = brokers[-1]
    rack_of = {each.id: each.rack for each in brokers}
    left = [each for each in brokers if each is not leaving]

    for move in plan_drain(brokers, partitions, leaving.id):
        others = {rack_of[each] for each in move.after if each in move.before}
        (newcomer,) = set(move.after) - set(move.before)
        free = [each for each in left if each.id not in move.before]
        if any(each.rack not in others for each in free) and leaving.rack is not None:
            assert rack_of[newcomer] not in others


@given(clusters())
def test_new_broker_gets_its_share(
    cluster: tuple[list[BrokerPlace], list[AssignedPartition]],
) -> None:
    brokers, partitions = cluster
    brokers = [each._replace(rack=None) for each in brokers]
    new = brokers[-1].id + 1
    brokers.append(BrokerPlace(new))

    after = applied(partitions, plan_spread(brokers, partitions, [new]))

    counts = Counter(each for replicas in after.values() for each in replicas)
    assert counts[new] == min(sum(counts.values()) // len(brokers), len(partitions))
    for each in partitions:
        now = after[each.topic, each.partition]
        assert len(set(now)) == len(now) == len(each.replicas)
        # One copy at most: a partition that loses two replicas at once is in danger.
        assert len(set(now) - set(each.replicas)) <= 1


@given(clusters())
def test_spread_leaves_no_partition_on_fewer_racks(
    cluster: tuple[list[BrokerPlace], list[AssignedPartition]],
) -> None:
    brokers, partitions = cluster
    new = brokers[-1].id + 1
    brokers = [*brokers, BrokerPlace(new, brokers[0].rack)]
    rack_of = {each.id: each.rack for each in brokers}

    for move in plan_spread(brokers, partitions, [new]):
        before, after = ({rack_of[each] for each in side} for side in (move.before, move.after))
        assert len(after) >= len(before)


@given(clusters())
def test_spread_never_makes_leaders_more_uneven(
    cluster: tuple[list[BrokerPlace], list[AssignedPartition]],
) -> None:
    brokers, partitions = cluster
    new = brokers[-1].id + 1
    brokers = [*brokers, BrokerPlace(new)]
    before = Counter(each.replicas[0] for each in partitions)

    after = applied(partitions, plan_spread(brokers, partitions, [new]))

    counts = Counter(replicas[0] for replicas in after.values())
    assert max(counts.values(), default=0) <= max(before.values(), default=0)


def test_three_full_brokers_and_a_new_one_end_even() -> None:
    turns = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    partitions = assigned(*(turns[each % 3] for each in range(12)))

    moves = plan_spread(places(1, 2, 3, 4), partitions, [4])

    after = applied(partitions, moves)
    replicas = Counter(each for found in after.values() for each in found)
    leaders = Counter(found[0] for found in after.values())
    assert set(replicas.values()) == {9}
    assert set(leaders.values()) == {3}
    assert sum(each.copies for each in moves) == 9


def test_spread_of_an_even_cluster_moves_nothing() -> None:
    partitions = assigned((1, 2), (2, 3), (3, 1))

    assert plan_spread(places(1, 2, 3), partitions, [3]) == []


def test_drain_says_what_is_missing() -> None:
    with pytest.raises(CannotMove, match="t-0 has 3 replicas, and 2 brokers would be left"):
        plan_drain(places(1, 2, 3), assigned((1, 2, 3)), 2)


def test_drained_leaderships_are_shared_out() -> None:
    partitions = assigned(*[(4, 1)] * 4, *[(4, 2)] * 4, *[(4, 3)] * 4)

    after = applied(partitions, plan_drain(places(1, 2, 3, 4), partitions, 4))

    assert set(Counter(found[0] for found in after.values()).values()) == {4}
    assert set(Counter(each for found in after.values() for each in found).values()) == {8}


@given(clusters(), st.integers(1, 4))
def test_more_replicas_go_where_there_are_fewest(
    cluster: tuple[list[BrokerPlace], list[AssignedPartition]], factor: int
) -> None:
    brokers, partitions = cluster
    factor = min(factor, len(brokers))

    after = applied(partitions, plan_factor(brokers, partitions, factor))

    for each in partitions:
        now = after[each.topic, each.partition]
        assert len(set(now)) == len(now) == max(factor, len(each.replicas))
        # What is there stays, its leader first.
        assert now[: len(each.replicas)] == each.replicas


def test_topics_of_one_broker_are_shared_out_over_three() -> None:
    partitions = assigned(*[(1,)] * 9)

    after = applied(partitions, plan_factor(places(1, 2, 3, 4), partitions, 3))

    counts = Counter(each for found in after.values() for each in found)
    assert counts == {1: 9, 2: 6, 3: 6, 4: 6}
    with pytest.raises(CannotMove, match="5 replicas need as many brokers; 4 serve"):
        plan_factor(places(1, 2, 3, 4), partitions, 5)
