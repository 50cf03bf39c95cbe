"""Which log is cleaned next, and how much of it. Pure: facts come in, a ranking goes out.

Kafka's rules for the dirty part, the dirty ratio and eligibility. Due passes (a deadline, a
horizon, a request) come from `deadlines` and go before merely dirty logs. The contract is in
README.md.
"""

import enum
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.types import TopicPartition


class DirtySegment(NamedTuple):
    base_offset: int
    size_bytes: int
    # 0 and below: unknown, or not read because no lag is configured.
    first_timestamp: int = 0  # largest of the first batch
    largest_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """One compacted log as selection sees it. The last segment is the active one."""

    topic_partition: TopicPartition
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    segments: Sequence[DirtySegment]
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float

    @property
    def active_base_offset(self) -> int:
        return self.segments[-1].base_offset

    def sealed_from(self, offset: int) -> Sequence[DirtySegment]:
        """Segments other than the active one that hold offsets at or above `offset`."""
        if offset > self.active_base_offset:
            return ()
        return self.segments[self.floor_index(offset) : -1]

    def floor_index(self, offset: int) -> int:
        """The segment whose range holds `offset`; the first one for anything below."""
        return max(bisect_right(self.segments, offset, key=lambda each: each.base_offset) - 1, 0)

    def bytes_between(self, start_offset: int, end_offset: int) -> int:
        """Whole segments from the one that holds `start_offset`, based below `end_offset`."""
        if start_offset >= end_offset:
            return 0
        segments = self.segments[self.floor_index(start_offset) :]
        return sum(each.size_bytes for each in segments if each.base_offset < end_offset)


class CleaningReason(enum.Enum):
    """Why a log is cleaned now, strongest first. Values are shown, and kept in histories."""

    ASKED = "a pass was requested"
    HORIZON = "a delete horizon has passed"
    LAG = "max.compaction.lag.ms has passed"
    TOMBSTONE = "a tombstone has waited for its first pass long enough"
    UNKNOWN_HORIZONS = "it was cleaned before, and its horizons are not known"
    RATIO = "the dirty ratio is above min.cleanable.dirty.ratio"


_RANKS = {reason: rank for rank, reason in enumerate(CleaningReason)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """How clean a log is, in whole segments."""

    topic_partition: TopicPartition
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int  # how long max.compaction.lag.ms has been exceeded; 0 when it is not
    min_cleanable_dirty_ratio: float
    checkpoint_is_wrong: bool = False  # it lies outside the log and must be rewritten

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_eligible(self) -> bool:
        """Kafka's rule: dirty enough, or something has waited too long to be cleaned."""
        if self.total_bytes == 0:
            return False
        must_compact = self.compaction_delay_ms > 0 and self.cleanable_bytes > 0
        return must_compact or self.dirty_ratio > self.min_cleanable_dirty_ratio


class Candidate(NamedTuple):
    log: LogToClean
    reason: CleaningReason


def measure(facts: LogFacts, checkpoint: int | None, *, now_ms: int) -> LogToClean:
    first_dirty, is_wrong = _first_dirty_offset(facts, checkpoint)
    raw = _first_uncleanable_offset(facts, first_dirty, now_ms=now_ms)
    # Only whole segments are cleaned: the one that holds the offset is left alone.
    sealed = facts.sealed_from(raw)
    first_uncleanable = sealed[0].base_offset if sealed else facts.active_base_offset
    return LogToClean(
        topic_partition=facts.topic_partition,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=first_uncleanable,
        clean_bytes=sum(
            each.size_bytes for each in facts.segments if each.base_offset < first_dirty
        ),
        cleanable_bytes=facts.bytes_between(min(first_dirty, first_uncleanable), first_uncleanable),
        compaction_delay_ms=_compaction_delay_ms(facts, first_dirty, now_ms=now_ms),
        min_cleanable_dirty_ratio=facts.min_cleanable_dirty_ratio,
        checkpoint_is_wrong=is_wrong,
    )


def _first_dirty_offset(facts: LogFacts, checkpoint: int | None) -> tuple[int, bool]:
    if checkpoint is None:
        return facts.log_start_offset, False
    if not facts.log_start_offset <= checkpoint <= facts.log_end_offset:
        return facts.log_start_offset, True
    return checkpoint, False


def _first_uncleanable_offset(facts: LogFacts, first_dirty: int, *, now_ms: int) -> int:
    bounds = [facts.last_stable_offset, facts.active_base_offset]
    protected = first_protected_segment(facts, first_dirty, now_ms=now_ms)
    if protected is not None:
        bounds.append(protected.base_offset)
    return max(min(bounds), first_dirty)


def first_protected_segment(
    facts: LogFacts, first_dirty: int, *, now_ms: int
) -> DirtySegment | None:
    """The first dirty segment that min.compaction.lag.ms protects."""
    if facts.min_compaction_lag_ms <= 0:
        return None
    youngest_ms = now_ms - facts.min_compaction_lag_ms
    segments = facts.sealed_from(first_dirty)
    return next((each for each in segments if each.largest_timestamp > youngest_ms), None)


def _compaction_delay_ms(facts: LogFacts, first_dirty: int, *, now_ms: int) -> int:
    """Over all sealed segments, including those that may not be cleaned yet."""
    times = [each.first_timestamp for each in facts.sealed_from(first_dirty)]
    oldest_ms = min((time for time in times if time > 0), default=None)
    if oldest_ms is None:
        return 0
    return max(now_ms - facts.max_compaction_lag_ms - oldest_ms, 0)


def kafka_candidates(logs: Iterable[LogToClean]) -> list[Candidate]:
    """What stock Kafka would clean, and by which of its two conditions."""
    return [
        Candidate(
            log,
            CleaningReason.RATIO
            if log.dirty_ratio > log.min_cleanable_dirty_ratio
            else CleaningReason.LAG,
        )
        for log in logs
        if log.is_eligible
    ]


def choose(candidates: Iterable[Candidate], *, due_first: bool = True) -> Candidate | None:
    """The strongest reason first; of the same reason, the dirtiest log.

    Without `due_first` the dirtiest of all, as in Kafka, where deadlines give no priority."""
    return min(
        candidates,
        key=lambda each: (
            _RANKS[each.reason] if due_first else 0,
            -each.log.dirty_ratio,
            each.log.topic_partition,
        ),
        default=None,
    )
