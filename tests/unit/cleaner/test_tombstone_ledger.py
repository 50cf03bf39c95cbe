"""Who holds tombstones, where they lie, and what is remembered of those that went."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.cleaner.history import MAX_BYTES, decode_history, encode_runs
from ledgerstone.cleaner.holds import NO_HOLDS, GroupHold, Holds
from ledgerstone.cleaner.plan import OffsetSpan, TombstoneRange, TombstoneTraces
from ledgerstone.cleaner.tombstone_ledger import (
    MAX_MISSED,
    MAX_MISSED_BYTES,
    MissedDeletes,
    TombstoneLedger,
    groups_behind,
)
from ledgerstone.cleaner.tombstone_ranges import (
    MAX_RANGES,
    TraceCollector,
    bounded,
    expired,
    released_ms,
)
from tests.kit.sized import examples

HELD = Holds(groups=(GroupHold("fast", 90), GroupHold("slow", 20)), max_ms=1000)


def missed(group_id: str, first: int = 5, last: int = 9, at_ms: int = 1) -> MissedDeletes:
    return MissedDeletes(group_id, first, first, last, at_ms)


# -- holds ----------------------------------------------------------------------------------------


def test_slowest_group_says_from_where_tombstones_are_held() -> None:
    assert HELD.held_from_offset == 20
    assert HELD.slowest == GroupHold("slow", 20)
    assert [each.group_id for each in HELD.holding(95)] == ["slow", "fast"]
    assert HELD.holding(19) == []
    assert NO_HOLDS.held_from_offset is None


def test_group_without_a_commit_holds_from_the_start() -> None:
    holds = Holds(groups=(GroupHold("a", 5), GroupHold("b", None)), max_ms=1000)

    assert holds.held_from_offset == 0
    assert str(holds.slowest) == "group b has committed nothing"


@pytest.mark.parametrize(
    ("offset", "now_ms", "is_held"),
    [(19, 0, False), (20, 0, True), (20, 1099, True), (20, 1100, False)],
)
def test_hold_ends_its_maximum_past_the_horizon(offset: int, now_ms: int, is_held: bool) -> None:
    assert HELD.holds(offset, 100, now_ms=now_ms) is is_held


def test_hold_for_ever_does_not_wrap_around() -> None:
    holds = Holds(groups=(GroupHold("a", 0),))

    assert holds.holds(0, 2**62, now_ms=2**62)


# -- ranges ---------------------------------------------------------------------------------------


def test_neighbours_with_one_horizon_are_one_range() -> None:
    ranges = [TombstoneRange(1, 2, 50), TombstoneRange(7, 9, 50), TombstoneRange(10, 10, 60)]

    assert bounded(ranges) == (TombstoneRange(1, 9, 50), TombstoneRange(10, 10, 60))


@examples(50)
@given(st.lists(st.integers(0, 10_000), max_size=3 * MAX_RANGES))
def test_few_ranges_cover_all_tombstones_and_promise_nothing_too_late(horizons: list[int]) -> None:
    ranges = [TombstoneRange(at, at, horizon_ms) for at, horizon_ms in enumerate(horizons)]

    found = bounded(ranges)

    assert len(found) <= MAX_RANGES
    for at, horizon_ms in enumerate(horizons):
        (own,) = [each for each in found if each.first_offset <= at <= each.last_offset]
        assert own.earliest_horizon_ms <= horizon_ms


def test_ranges_with_the_nearest_horizons_become_one() -> None:
    far = [TombstoneRange(at, at, at * 1000) for at in range(MAX_RANGES)]
    near = TombstoneRange(MAX_RANGES, MAX_RANGES, (MAX_RANGES - 1) * 1000 + 1)

    found = bounded([*far, near])

    assert found[:-1] == tuple(far[:-1])
    assert found[-1] == TombstoneRange(MAX_RANGES - 1, MAX_RANGES, (MAX_RANGES - 1) * 1000)


def test_collector_adds_up_what_windows_tell() -> None:
    collector = TraceCollector()
    for at in range(5 * MAX_RANGES):
        collector.add([TombstoneRange(2 * at, 2 * at, at)], OffsetSpan(2 * at + 1, 2 * at + 1))

    traces = collector.traces

    assert len(traces.pending) == MAX_RANGES
    assert traces.pending[0].first_offset == 0
    assert traces.pending[-1].last_offset == 10 * MAX_RANGES - 2
    assert traces.removed == OffsetSpan(1, 10 * MAX_RANGES - 1)


def test_range_is_released_when_its_first_tombstone_may_go() -> None:
    assert released_ms(TombstoneRange(10, 30, 100), NO_HOLDS) == 100
    assert released_ms(TombstoneRange(10, 30, 100), HELD) == 100
    assert released_ms(TombstoneRange(20, 30, 100), HELD) == 1100


def test_what_a_pass_may_remove_ends_where_holds_begin() -> None:
    ranges = [TombstoneRange(1, 2, 100), TombstoneRange(10, 30, 200), TombstoneRange(40, 50, 900)]

    assert expired(ranges, NO_HOLDS, now_ms=200) == ranges[:2]
    assert expired(ranges, HELD, now_ms=200) == [ranges[0], TombstoneRange(10, 19, 200)]
    assert expired(ranges, HELD, now_ms=1200) == ranges[:2]


# -- the ledger -----------------------------------------------------------------------------------


def test_pass_replaces_what_it_reached_and_keeps_what_lies_beyond() -> None:
    old = TombstoneLedger(
        pending=(TombstoneRange(1, 5, 10), TombstoneRange(20, 25, 30)), removed_below_offset=90
    )
    traces = TombstoneTraces(pending=(TombstoneRange(2, 3, 15),), removed=OffsetSpan(1, 5))

    after = old.after_pass(traces, end_offset=20, now_ms=77)

    assert after.pending == (TombstoneRange(2, 3, 15), TombstoneRange(20, 25, 30))
    assert (after.removed_below_offset, after.removed_at_ms) == (90, 77)


def test_pass_that_ends_inside_a_range_leaves_the_rest_of_it() -> None:
    """As one for horizons may where an earlier pass ended in the middle of a segment."""
    old = TombstoneLedger(pending=(TombstoneRange(5, 25, 30),))

    after = old.after_pass(TombstoneTraces(), end_offset=20, now_ms=77)

    assert after.pending == (TombstoneRange(20, 25, 30),)


def test_groups_that_are_behind_are_told_from_where_to_where() -> None:
    committed = {"start": 0, "before": 3, "inside": 7, "last": 9, "past": 10}

    found = groups_behind(committed, OffsetSpan(5, 9), now_ms=1)

    assert [(each.group_id, each.first_offset, each.last_offset) for each in found] == [
        ("before", 5, 9),
        ("inside", 7, 9),
        ("last", 9, 9),
    ]


def test_announced_entries_give_way_to_what_the_pass_said() -> None:
    ledger = TombstoneLedger(missed=(missed("old"),)).announced([missed("a"), missed("b")])

    assert [each.group_id for each in ledger.told] == ["old"]
    assert [each.group_id for each in ledger.settled([missed("a")]).told] == ["old", "a"]
    assert [each.group_id for each in ledger.believed().told] == ["old", "a", "b"]


def test_several_misses_of_a_group_are_one_entry() -> None:
    ledger = TombstoneLedger().settled([missed("a", 5, 9, 1)]).settled([missed("a", 20, 30, 2)])

    assert ledger.missed == (MissedDeletes("a", 20, 5, 30, 2),)


def test_oldest_entries_give_way_by_number_and_by_size() -> None:
    many = TombstoneLedger().settled([missed(f"g{at}", at_ms=at) for at in range(MAX_MISSED + 5)])
    long = TombstoneLedger().settled([missed(f"{at}\0" * 20_000, at_ms=at) for at in range(200)])

    assert len(many.missed) == MAX_MISSED
    assert many.missed[0].group_id == "g5"
    assert long.missed[-1].at_ms == 199
    assert len(json.dumps(long.to_json())) < 2 * MAX_MISSED_BYTES < MAX_BYTES


def test_truncation_takes_back_ranges() -> None:
    ledger = TombstoneLedger(pending=(TombstoneRange(1, 5, 10), TombstoneRange(8, 9, 30)))

    assert ledger.truncated(4).pending == (TombstoneRange(1, 3, 10),)
    assert TombstoneLedger().truncated(4).pending is None


def test_ledger_reads_back_as_it_was_written() -> None:
    ledger = TombstoneLedger(
        pending=(TombstoneRange(1, 5, 10),),
        removed_below_offset=1,
        removed_at_ms=2,
        missed=(missed("grüppe"), missed("b")._replace(is_announced=True)),
    )

    assert decode_history(encode_runs([], ledger)) == ([], ledger)
    assert decode_history(encode_runs([])) == ([], TombstoneLedger())


@pytest.mark.parametrize(
    "damage",
    [
        {"pending": [[1, 2]]},
        {"pending": [[1, 2, "3"]]},
        {"pending": [[1, 2, 3]] * (MAX_RANGES + 1)},
        {"pending": 7},
        {"missed": [{}]},
        {"missed": [{**missed("a")._asdict(), "group_id": 7}]},
        {"missed": [{**missed("a")._asdict(), "at_ms": None}]},
        {"removed_at_ms": True},
    ],
)
def test_broken_ledger_is_refused_with_one_kind_of_error(damage: dict[str, object]) -> None:
    content = json.loads(encode_runs([], TombstoneLedger(pending=())))
    content["tombstones"].update(damage)

    with pytest.raises(ValueError):  # noqa: PT011
        decode_history(json.dumps(content).encode())
