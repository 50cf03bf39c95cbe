"""Which log is cleaned next, and how much of it. Scenarios of Kafka's own tests."""

from collections.abc import Sequence
from typing import Any

import pytest

from ledgerstone.cleaner.selection import (
    Candidate,
    CleaningReason,
    DirtySegment,
    LogFacts,
    LogToClean,
    choose,
    kafka_candidates,
    measure,
)
from ledgerstone.types import INT64_MAX, TopicPartition

T0 = 1_700_000_000_000
HOUR_MS = 3_600_000


def facts(
    *segments: DirtySegment, end_offset: int = 100, name: str = "topic", **changes: Any
) -> LogFacts:
    """A log of these segments, the last one active, everything stable unless told otherwise."""
    given: dict[str, Any] = {
        "topic_partition": TopicPartition(name, 0),
        "log_start_offset": segments[0].base_offset,
        "log_end_offset": end_offset,
        "last_stable_offset": end_offset,
        "segments": segments,
        "min_compaction_lag_ms": 0,
        "max_compaction_lag_ms": INT64_MAX,
        "min_cleanable_dirty_ratio": 0.5,
    }
    return LogFacts(**{**given, **changes})


def evenly(count: int, size_bytes: int = 10, step: int = 10) -> Sequence[DirtySegment]:
    return [DirtySegment(index * step, size_bytes) for index in range(count)]


def to_clean(name: str, clean: int, dirty: int, **changes: Any) -> LogToClean:
    given: dict[str, Any] = {
        "topic_partition": TopicPartition(name, 0),
        "first_dirty_offset": 0,
        "first_uncleanable_offset": 10,
        "clean_bytes": clean,
        "cleanable_bytes": dirty,
        "compaction_delay_ms": 0,
        "min_cleanable_dirty_ratio": 0.5,
    }
    return LogToClean(**{**given, **changes})


def test_dirtiest_of_the_eligible_logs_is_chosen() -> None:
    """Logs of different dirtiness; the dirtiest is picked unless it is excluded."""
    logs = [to_clean("clean", 10, 0), to_clean("half", 10, 11), to_clean("dirty", 0, 10)]

    first = choose(kafka_candidates(logs))
    second = choose(kafka_candidates(logs[:2]))
    third = choose(kafka_candidates(logs[:1]))

    assert first == Candidate(logs[2], CleaningReason.RATIO)
    assert second == Candidate(logs[1], CleaningReason.RATIO)
    assert third is None


def test_ratio_must_be_exceeded_and_not_only_reached() -> None:
    half = to_clean("half", 210, 210)
    more = to_clean("more", 210, 420)

    assert not half.is_eligible
    assert more.is_eligible


def test_ratio_of_one_never_makes_a_log_eligible_and_a_ratio_of_zero_needs_a_dirty_byte() -> None:
    never = to_clean("never", 0, 10, min_cleanable_dirty_ratio=1.0)
    nothing = to_clean("nothing", 10, 0, min_cleanable_dirty_ratio=0.0)
    one = to_clean("one", 10, 1, min_cleanable_dirty_ratio=0.0)

    assert [log.is_eligible for log in (never, nothing, one)] == [False, False, True]


def test_empty_log_is_never_eligible() -> None:
    empty = to_clean("empty", 0, 0, min_cleanable_dirty_ratio=0.0, compaction_delay_ms=5)

    assert not empty.is_eligible


def test_deadline_makes_eligible_only_where_something_can_be_cleaned() -> None:
    waiting = to_clean("waiting", 100, 1, compaction_delay_ms=1)
    protected = to_clean("protected", 100, 0, compaction_delay_ms=1)

    assert kafka_candidates([waiting, protected]) == [Candidate(waiting, CleaningReason.LAG)]


def test_deadline_gives_no_rank_in_kafka_and_the_first_one_here() -> None:
    late = Candidate(to_clean("late", 100, 1, compaction_delay_ms=1), CleaningReason.LAG)
    dirty = Candidate(to_clean("dirty", 0, 100), CleaningReason.RATIO)

    assert choose([late, dirty], due_first=False) == dirty
    assert choose([late, dirty]) == late


def test_reasons_go_before_each_other_as_they_are_listed() -> None:
    candidates = [
        Candidate(to_clean(reason.name, 1, 1), reason) for reason in reversed(CleaningReason)
    ]
    chosen = []

    while candidates:
        best = choose(candidates)
        assert best is not None
        candidates.remove(best)
        chosen.append(best.reason)

    assert chosen == list(CleaningReason)


def test_checkpoint_above_the_logs_end_is_reset_to_its_start() -> None:
    """The checkpoint lies outside the log."""
    log = measure(facts(*evenly(3), end_offset=25), 200, now_ms=T0)

    assert (log.first_dirty_offset, log.checkpoint_is_wrong) == (0, True)


def test_checkpoint_below_the_logs_start_is_reset_to_its_start() -> None:
    """The checkpoint lies outside the log."""
    log = measure(facts(*evenly(3), log_start_offset=10), 0, now_ms=T0)

    assert (log.first_dirty_offset, log.checkpoint_is_wrong) == (10, True)


def test_log_without_a_checkpoint_is_dirty_from_its_start() -> None:
    log = measure(facts(*evenly(3), log_start_offset=10), None, now_ms=T0)

    assert (log.first_dirty_offset, log.checkpoint_is_wrong) == (10, False)


@pytest.mark.parametrize(
    ("log_start_offset", "checkpoint"), [(25, None), (25, 0), (0, 25)], ids=str
)
def test_nothing_is_cleanable_when_the_dirty_part_begins_in_the_active_segment(
    log_start_offset: int, checkpoint: int | None
) -> None:
    """The log start or the dirty offset lies in the active segment."""
    log_facts = facts(*evenly(3), end_offset=30, log_start_offset=log_start_offset)

    log = measure(log_facts, checkpoint, now_ms=T0)

    assert log.first_dirty_offset == 25
    assert log.cleanable_bytes == 0
    assert not log.is_eligible


def test_high_watermark_inside_a_segment_leaves_that_whole_segment_alone() -> None:
    """The high watermark bounds the cleanable range."""
    log = measure(facts(*evenly(10), last_stable_offset=55), None, now_ms=T0)

    assert log.first_uncleanable_offset == 50
    assert log.cleanable_bytes == 50


def test_everything_below_the_active_segment_is_cleanable_when_all_is_replicated() -> None:
    """The high watermark bounds the cleanable range."""
    log = measure(facts(*evenly(10)), None, now_ms=T0)

    assert log.first_uncleanable_offset == 90


def test_segments_younger_than_min_compaction_lag_are_left_alone() -> None:
    """min.compaction.lag.ms protects young segments."""
    old = [DirtySegment(base, 10, T0, T0) for base in (0, 10, 20, 30)]
    young = [DirtySegment(base, 10, T0 + HOUR_MS + 1, T0 + HOUR_MS + 1) for base in (40, 50)]
    log_facts = facts(*old, *young, end_offset=60, min_compaction_lag_ms=HOUR_MS)

    early = measure(log_facts, None, now_ms=T0 + HOUR_MS + 1)
    late = measure(log_facts, None, now_ms=T0 + 3 * HOUR_MS)

    assert early.first_uncleanable_offset == 40
    assert late.first_uncleanable_offset == 50


def test_segment_exactly_as_old_as_the_lag_may_be_cleaned() -> None:
    """Nothing is cleaned before min.compaction.lag.ms has passed."""
    log_facts = facts(
        DirtySegment(0, 10, T0, T0), DirtySegment(10, 0), min_compaction_lag_ms=HOUR_MS
    )

    before = measure(log_facts, None, now_ms=T0 + HOUR_MS - 1)
    exactly = measure(log_facts, None, now_ms=T0 + HOUR_MS)

    assert (before.cleanable_bytes, exactly.cleanable_bytes) == (0, 10)


def test_old_segment_behind_a_young_one_is_protected_with_it() -> None:
    segments = [
        DirtySegment(0, 10, T0, T0 + 2 * HOUR_MS),
        DirtySegment(10, 10, T0, T0),
        DirtySegment(20, 0),
    ]

    log = measure(
        facts(*segments, end_offset=20, min_compaction_lag_ms=HOUR_MS),
        None,
        now_ms=T0 + 2 * HOUR_MS,
    )

    assert log.first_uncleanable_offset == 0


def test_open_transaction_keeps_everything_from_its_segment_on() -> None:
    """An open transaction bounds the cleanable range until its marker's segment may be cleaned."""
    segments = evenly(5)

    pinned = measure(facts(*segments, last_stable_offset=0, end_offset=45), None, now_ms=T0)
    decided = measure(facts(*segments, last_stable_offset=45, end_offset=45), None, now_ms=T0)

    assert (pinned.first_uncleanable_offset, pinned.cleanable_bytes) == (0, 0)
    assert (decided.first_uncleanable_offset, decided.cleanable_bytes) == (40, 40)


def test_max_compaction_lag_counts_from_the_oldest_first_batch() -> None:
    """max.compaction.lag.ms forces a pass whatever the dirty ratio is."""
    segments = [
        DirtySegment(0, 10, T0, T0),
        DirtySegment(10, 10, T0 - HOUR_MS, T0),
        DirtySegment(20, 0),
    ]
    log_facts = facts(*segments, end_offset=20, max_compaction_lag_ms=6 * HOUR_MS)

    early = measure(log_facts, None, now_ms=T0 + 3 * HOUR_MS)
    exactly = measure(log_facts, None, now_ms=T0 + 5 * HOUR_MS)
    late = measure(log_facts, None, now_ms=T0 + 5 * HOUR_MS + 7)

    assert [log.compaction_delay_ms for log in (early, exactly, late)] == [0, 0, 7]


def test_max_compaction_lag_looks_at_dirty_sealed_segments_only() -> None:
    """The block cleaned before does not count, and the active one does not."""
    segments = [DirtySegment(base, 10, T0, T0) for base in (0, 10)]
    active = DirtySegment(20, 10, T0 - HOUR_MS, T0)
    log_facts = facts(*segments, active, end_offset=30, max_compaction_lag_ms=1)

    log = measure(log_facts, 20, now_ms=T0 + HOUR_MS)

    assert log.compaction_delay_ms == 0


def test_timestamps_of_zero_and_below_say_nothing_about_the_lag() -> None:
    segments = [DirtySegment(0, 10, -1, -1), DirtySegment(10, 10, 0, 0), DirtySegment(20, 0)]

    log = measure(facts(*segments, end_offset=20, max_compaction_lag_ms=1), None, now_ms=T0)

    assert log.compaction_delay_ms == 0


def test_clean_and_cleanable_bytes_are_those_of_whole_segments() -> None:
    """Six segments, dirty from the third, uncleanable from the fifth."""
    segments = [DirtySegment(base, 70) for base in range(6)]

    log = measure(facts(*segments, end_offset=6, last_stable_offset=4), 2, now_ms=T0)

    assert (log.clean_bytes, log.cleanable_bytes) == (140, 140)
    assert log.dirty_ratio == 0.5
    assert log.total_bytes == 280


def test_segment_cut_by_the_first_dirty_offset_counts_on_both_sides() -> None:
    log = measure(facts(*evenly(4), end_offset=35), 15, now_ms=T0)

    assert (log.clean_bytes, log.cleanable_bytes) == (20, 20)
