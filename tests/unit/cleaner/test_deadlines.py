"""When deletes are due on topics without new writes."""

from typing import Any

import pytest

from ledgerstone.cleaner.deadlines import (
    FIRST_REST_MS,
    LONGEST_REST_MS,
    Due,
    Pending,
    due_times,
    must_roll,
    reason_now,
)
from ledgerstone.cleaner.holds import NO_HOLDS, GroupHold, Holds
from ledgerstone.cleaner.plan import TombstoneRange
from ledgerstone.cleaner.selection import CleaningReason, DirtySegment, LogFacts, measure
from ledgerstone.types import INT64_MAX
from tests.unit.cleaner.test_selection import HOUR_MS, T0, facts

DAY_MS = 24 * HOUR_MS


def dues_of(
    log_facts: LogFacts, pending: Pending, checkpoint: int | None = None, *, now_ms: int = T0
) -> list[Due]:
    log = measure(log_facts, checkpoint, now_ms=now_ms)
    return list(due_times(log_facts, log, pending, tombstone_lag_ms=DAY_MS))


def reason_at(
    log_facts: LogFacts, pending: Pending, now_ms: int, checkpoint: int | None = None
) -> CleaningReason | None:
    log = measure(log_facts, checkpoint, now_ms=now_ms)
    dues = list(due_times(log_facts, log, pending, tombstone_lag_ms=DAY_MS))
    return reason_now(log, pending, dues, now_ms=now_ms)


def cleaned_log(**changes: Any) -> LogFacts:
    """One segment that a pass has been through, and an empty active one."""
    return facts(DirtySegment(0, 70, T0, T0), DirtySegment(10, 0), end_offset=10, **changes)


def active_log(**changes: Any) -> LogFacts:
    """Everything is in the active segment."""
    return facts(DirtySegment(0, 70, T0, T0), end_offset=10, **changes)


def test_pass_is_due_when_the_earliest_horizon_has_come() -> None:
    pending = Pending(earliest_horizon_ms=T0 + DAY_MS, horizons_are_known=True)

    before = reason_at(cleaned_log(), pending, T0 + DAY_MS - 1, checkpoint=10)
    at = reason_at(cleaned_log(), pending, T0 + DAY_MS, checkpoint=10)

    assert (before, at) == (None, CleaningReason.HORIZON)


def test_nothing_is_due_on_a_log_without_horizons_and_tombstones() -> None:
    pending = Pending(horizons_are_known=True)

    assert dues_of(cleaned_log(), pending, checkpoint=10) == []
    assert dues_of(active_log(), pending) == []


def test_log_cleaned_by_somebody_else_is_looked_through_once() -> None:
    pending = Pending()
    before = reason_at(cleaned_log(), pending, T0, checkpoint=10)

    pending.cleaned(10, None)
    after = reason_at(cleaned_log(), pending, T0, checkpoint=10)

    assert (before, after) == (CleaningReason.UNKNOWN_HORIZONS, None)


def test_log_that_was_never_cleaned_has_no_unknown_horizons() -> None:
    assert reason_at(cleaned_log(), Pending(), T0, checkpoint=None) is None


def test_tombstone_in_an_idle_active_segment_is_due_after_its_lag() -> None:
    pending = Pending()
    pending.appended(0, 1, now_ms=T0)
    log_facts = active_log()
    dues = dues_of(log_facts, pending)

    assert dues == [Due(CleaningReason.TOMBSTONE, T0 + DAY_MS, 0)]
    assert not must_roll(log_facts, dues, now_ms=T0 + DAY_MS - 1)
    assert must_roll(log_facts, dues, now_ms=T0 + DAY_MS)


def test_active_segment_that_is_due_gives_no_pass_before_it_was_rolled() -> None:
    pending = Pending()
    pending.appended(0, 1, now_ms=T0)

    before = reason_at(active_log(), pending, T0 + DAY_MS)
    after = reason_at(cleaned_log(), pending, T0 + DAY_MS)

    assert (before, after) == (None, CleaningReason.TOMBSTONE)


def test_max_compaction_lag_rolls_an_idle_active_segment() -> None:
    log_facts = active_log(max_compaction_lag_ms=HOUR_MS)
    dues = dues_of(log_facts, Pending())

    assert dues == [Due(CleaningReason.LAG, T0 + HOUR_MS + 1, 0)]
    assert not must_roll(log_facts, dues, now_ms=T0 + HOUR_MS)
    assert must_roll(log_facts, dues, now_ms=T0 + HOUR_MS + 1)


def test_infinite_compaction_lag_is_no_deadline() -> None:
    assert dues_of(active_log(max_compaction_lag_ms=INT64_MAX), Pending()) == []


def test_no_roll_for_what_an_open_transaction_keeps() -> None:
    pending = Pending()
    pending.appended(0, 1, now_ms=T0)
    log_facts = active_log(last_stable_offset=5)

    assert not must_roll(log_facts, dues_of(log_facts, pending), now_ms=T0 + 2 * DAY_MS)


def test_no_roll_for_what_min_compaction_lag_protects() -> None:
    pending = Pending()
    pending.appended(0, 1, now_ms=T0)
    log_facts = active_log(min_compaction_lag_ms=3 * DAY_MS)
    dues = dues_of(log_facts, pending)

    assert not must_roll(log_facts, dues, now_ms=T0 + 2 * DAY_MS)
    assert must_roll(log_facts, dues, now_ms=T0 + 3 * DAY_MS)


def test_segments_from_before_the_start_may_hold_tombstones_and_are_treated_so() -> None:
    unwatched = Pending(watched_from_offset=10)
    watched = Pending(watched_from_offset=0)

    assert dues_of(active_log(), unwatched) == [Due(CleaningReason.TOMBSTONE, T0 + DAY_MS, 0)]
    assert dues_of(active_log(), watched) == []


@pytest.mark.parametrize("first_timestamp", [-1, 0])
def test_segment_from_before_the_start_without_a_first_time_is_due_by_its_largest(
    first_timestamp: int,
) -> None:
    """That is the time of its file where its records have none."""
    log_facts = facts(DirtySegment(0, 70, first_timestamp, T0), end_offset=10)

    found = dues_of(log_facts, Pending(watched_from_offset=10))

    assert found == [Due(CleaningReason.TOMBSTONE, T0 + DAY_MS, 0)]


def test_timestamp_in_the_future_does_not_keep_a_segment_from_before_the_start() -> None:
    """As a producer writes them that counts microseconds."""
    log_facts = facts(DirtySegment(0, 70, 1000 * T0, 1000 * T0), end_offset=10)

    found = dues_of(log_facts, Pending(watched_from_offset=10, watched_from_ms=T0))

    assert found == [Due(CleaningReason.TOMBSTONE, T0 + DAY_MS, 0)]


def test_tombstones_are_forgotten_with_the_pass_that_has_seen_them() -> None:
    pending = Pending()
    pending.appended(0, 2, now_ms=T0)
    pending.appended(10, 1, now_ms=T0 + 5)

    pending.cleaned(10, T0 + DAY_MS)

    assert pending.fresh_tombstones == 1
    assert pending.earliest_horizon_ms == T0 + DAY_MS


def test_tombstones_of_merged_segments_are_found_under_the_new_base() -> None:
    pending = Pending()
    pending.appended(10, 2, now_ms=T0 + 5)
    pending.appended(20, 1, now_ms=T0)

    pending.merged((0, 10, 20), 0)

    assert pending.tombstone_ms(DirtySegment(0, 70)) == T0
    assert pending.fresh_tombstones == 3


def test_oldest_tombstone_is_that_of_the_first_append() -> None:
    pending = Pending()
    pending.appended(0, 1, now_ms=T0)
    pending.appended(0, 1, now_ms=T0 + 9)

    assert pending.oldest_tombstone_ms(active_log(), 0) == T0


def test_truncation_takes_the_tombstones_along() -> None:
    pending = Pending()
    pending.appended(0, 1, now_ms=T0)
    pending.appended(10, 1, now_ms=T0)

    pending.truncated(10, now_ms=T0)

    assert pending.fresh_tombstones == 1


@pytest.mark.parametrize("watched_from", [0, 20], ids=["written since", "written before"])
def test_truncation_inside_a_segment_leaves_what_is_due_in_it(watched_from: int) -> None:
    """The cut is above the tombstone: it may be all that is left to start a pass."""
    pending = Pending(watched_from_offset=watched_from)
    if not watched_from:
        pending.appended(10, 1, now_ms=T0)

    pending.truncated(10, now_ms=T0 + HOUR_MS)
    found = dues_of(facts(DirtySegment(10, 70, T0, T0), end_offset=15), pending)

    assert found == [Due(CleaningReason.TOMBSTONE, T0 + DAY_MS, 10)]


def test_retention_takes_the_tombstones_along() -> None:
    pending = Pending()
    pending.appended(0, 1, now_ms=T0)
    pending.appended(10, 1, now_ms=T0)

    pending.deleted_below(10)

    assert list(pending.tombstones) == [10]


def test_record_from_the_future_does_not_keep_a_segment_from_being_rolled() -> None:
    pending = Pending()
    pending.appended(0, 1, now_ms=T0)
    future = facts(DirtySegment(0, 70, T0, T0 + 9 * DAY_MS), end_offset=10)

    assert must_roll(future, dues_of(future, pending), now_ms=T0 + DAY_MS)


def test_pass_that_changed_nothing_is_repeated_ever_more_rarely() -> None:
    pending = Pending(earliest_horizon_ms=T0, horizons_are_known=True)
    rests = []

    for _ in range(12):
        pending.rested(is_still_due=True, now_ms=T0)
        rests.append(pending.rest_until_ms - T0)

    assert rests[:3] == [FIRST_REST_MS, 2 * FIRST_REST_MS, 4 * FIRST_REST_MS]
    assert rests[-1] == LONGEST_REST_MS
    assert reason_at(cleaned_log(), pending, T0 + 1, checkpoint=10) is None


def test_clock_that_was_set_back_does_not_prolong_a_rest() -> None:
    pending = Pending(earliest_horizon_ms=T0, horizons_are_known=True)
    pending.rested(is_still_due=True, now_ms=T0 + 365 * DAY_MS)

    pending.clock_shows(T0 + 1)

    assert reason_at(cleaned_log(), pending, T0 + 1, checkpoint=10) is CleaningReason.HORIZON


def test_tombstone_from_before_the_clock_was_set_back_waits_no_longer_than_others() -> None:
    pending = Pending()
    pending.appended(0, 2, now_ms=T0 + 365 * DAY_MS)

    pending.clock_shows(T0)

    assert dues_of(active_log(), pending) == [Due(CleaningReason.TOMBSTONE, T0 + DAY_MS, 0)]
    assert pending.fresh_tombstones == 2


def test_pass_that_did_what_it_was_for_needs_no_rest() -> None:
    pending = Pending(earliest_horizon_ms=T0 + 5, horizons_are_known=True)
    pending.rested(is_still_due=True, now_ms=T0)

    pending.rested(is_still_due=False, now_ms=T0)

    assert reason_at(cleaned_log(), pending, T0 + 5, checkpoint=10) is CleaningReason.HORIZON


def test_strongest_reason_is_the_one_that_is_told() -> None:
    pending = Pending(earliest_horizon_ms=T0, horizons_are_known=True)
    log_facts = facts(
        DirtySegment(0, 70, T0, T0),
        DirtySegment(10, 70, T0, T0),
        DirtySegment(20, 0),
        end_offset=20,
        max_compaction_lag_ms=1,
    )

    assert reason_at(log_facts, pending, T0 + 2, checkpoint=10) is CleaningReason.HORIZON


# -- holds --------------------------------------------------------------------------------------


def held_pending() -> Pending:
    pending = Pending()
    ranges = (TombstoneRange(2, 3, T0 + HOUR_MS), TombstoneRange(5, 8, T0 + 2 * HOUR_MS))
    pending.cleaned(10, T0 + HOUR_MS, ranges=ranges)
    return pending


@pytest.mark.parametrize(
    ("committed", "due_ms"),
    [
        (None, T0 + HOUR_MS + DAY_MS),
        (2, T0 + HOUR_MS + DAY_MS),
        (3, T0 + HOUR_MS),
        (10, T0 + HOUR_MS),
    ],
)
def test_horizon_of_a_held_range_is_due_when_its_hold_ends(
    committed: int | None, due_ms: int
) -> None:
    log_facts = cleaned_log()
    log = measure(log_facts, 10, now_ms=T0)
    holds = Holds(groups=(GroupHold("g", committed),), max_ms=DAY_MS)

    dues = list(due_times(log_facts, log, held_pending(), tombstone_lag_ms=DAY_MS, holds=holds))

    assert dues == [Due(CleaningReason.HORIZON, due_ms)]


def test_markers_are_held_by_nobody() -> None:
    pending = Pending()
    ranges = (TombstoneRange(2, 3, T0),)
    pending.cleaned(10, T0, marker_horizon_ms=T0 + HOUR_MS, ranges=ranges)

    released = pending.released_ms(Holds(groups=(GroupHold("g", 0),), max_ms=DAY_MS))

    assert released == T0 + HOUR_MS


def test_ranges_go_with_the_segments_that_retention_or_truncation_takes() -> None:
    deleted, truncated = held_pending(), held_pending()

    deleted.deleted_below(5)
    truncated.truncated(5, now_ms=T0)

    assert deleted.released_ms(NO_HOLDS) == T0 + 2 * HOUR_MS
    assert truncated.released_ms(NO_HOLDS) == T0 + HOUR_MS
