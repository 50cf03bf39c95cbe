"""When a partition's deletes are due, even without new writes. Pure.

On a quiet topic Kafka starts no pass for a tombstone whose horizon has passed, and never rolls an
idle active segment, so a delete may stay unfinished forever. Here each partition remembers its
earliest pending horizon and the first tombstone of every segment not yet cleaned. Together with
max.compaction.lag.ms these say when a pass is due, and whether the active segment must roll for it.
The contract is in README.md.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ledgerstone.cleaner.holds import NO_HOLDS, Holds
from ledgerstone.cleaner.plan import TombstoneRange
from ledgerstone.cleaner.selection import CleaningReason, DirtySegment, LogFacts, LogToClean
from ledgerstone.cleaner.tombstone_ranges import released_ms
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.types import INT64_MAX

# A pass that did not resolve its reason is not repeated at once: the rest doubles each time.
FIRST_REST_MS: Final = 15_000
LONGEST_REST_MS: Final = 3_600_000


class SegmentTombstones(NamedTuple):
    """Tombstones written to one segment since this process started."""

    first_ms: int  # by the broker's clock, when the first of them was, or may have been, appended
    total: int  # that are known; nobody counts those that come from a leader


class Due(NamedTuple):
    reason: CleaningReason
    at_ms: int
    segment_base: int | None = None  # the segment that makes it due; None: no particular one


@dataclass(slots=True, kw_only=True)
class Pending:
    """The unfinished deletes of one partition."""

    # Segments based below this offset may hold tombstones that nobody saw: written before this
    # process started, or before the log was compacted.
    watched_from_offset: int = 0
    # When that was: what lies there was written before, whatever its timestamps say.
    watched_from_ms: int = INT64_MAX
    # Nobody looks for tombstones in a log that is not compacted.
    is_watched: bool = True
    # The earliest horizon left by a pass; None if none is pending, or none is known.
    earliest_horizon_ms: int | None = None
    # For markers alone, and the ranges of tombstones; None: only the earliest of all is known.
    marker_horizon_ms: int | None = None
    ranges: tuple[TombstoneRange, ...] | None = None
    horizons_are_known: bool = False
    tombstones: dict[int, SegmentTombstones] = field(default_factory=dict)
    rest_until_ms: int = 0
    futile_passes: int = 0

    def watch(self, *, is_compacted: bool, end_offset: int, now_ms: int) -> None:
        """What has been written so far may be tombstones, once the log becomes a compacted one."""
        if is_compacted and not self.is_watched:
            self.watched_from_offset, self.watched_from_ms = end_offset, now_ms
        self.is_watched = is_compacted

    def appended(self, segment_base: int, tombstone_count: int, *, now_ms: int) -> None:
        first_ms, total = self.tombstones.get(segment_base, (now_ms, 0))
        self.tombstones[segment_base] = SegmentTombstones(first_ms, total + tombstone_count)

    def cleaned(
        self,
        end_offset: int,
        earliest_horizon_ms: int | None,
        *,
        marker_horizon_ms: int | None = None,
        ranges: tuple[TombstoneRange, ...] | None = None,
    ) -> None:
        """A pass has seen everything below `end_offset`."""
        self.know_horizons(earliest_horizon_ms, marker_horizon_ms=marker_horizon_ms, ranges=ranges)
        for base in [base for base in self.tombstones if base < end_offset]:
            del self.tombstones[base]

    def know_horizons(
        self,
        earliest_horizon_ms: int | None,
        *,
        marker_horizon_ms: int | None,
        ranges: tuple[TombstoneRange, ...] | None,
    ) -> None:
        """From a pass, or from the history of the last one."""
        self.earliest_horizon_ms = earliest_horizon_ms
        self.marker_horizon_ms = marker_horizon_ms
        self.ranges = ranges
        self.horizons_are_known = True

    def released_ms(self, holds: Holds) -> int | None:
        """When a pass could remove something that waits for its horizon; a range held for a group
        waits longer."""
        if self.ranges is None:
            return self.earliest_horizon_ms
        times = [released_ms(each, holds) for each in self.ranges]
        if self.marker_horizon_ms is not None:
            times.append(self.marker_horizon_ms)
        return min(times, default=None)

    def clock_shows(self, now_ms: int) -> None:
        """What seems to lie ahead was before the wall clock was set back, and must not wait until
        it has caught up."""
        if self.rest_until_ms > now_ms + LONGEST_REST_MS:
            self.rest_until_ms = 0
        self.watched_from_ms = min(self.watched_from_ms, now_ms)
        for base, (first_ms, total) in self.tombstones.items():
            if first_ms > now_ms:
                self.tombstones[base] = SegmentTombstones(now_ms, total)

    def merged(self, source_bases: Sequence[int], base_offset: int) -> None:
        """Segments became one: their tombstones now belong to its base."""
        moved = [self.tombstones.pop(base) for base in source_bases if base in self.tombstones]
        if moved:
            self.tombstones[base_offset] = SegmentTombstones(
                min(each.first_ms for each in moved), sum(each.total for each in moved)
            )

    def rested(self, *, is_still_due: bool, now_ms: int) -> None:
        """Call after a pass: says whether the reason for it is still due."""
        if not is_still_due:
            self.futile_passes, self.rest_until_ms = 0, 0
            return
        rest_ms = min(FIRST_REST_MS << min(self.futile_passes, 20), LONGEST_REST_MS)
        self.futile_passes += 1
        self.rest_until_ms = now_ms + rest_ms

    def deleted_below(self, first_base: int) -> None:
        """Retention has deleted the segments below."""
        if self.ranges and self.ranges[0].last_offset < first_base:
            self.ranges = tuple(each for each in self.ranges if each.last_offset >= first_base)
        for base in [base for base in self.tombstones if base < first_base]:
            del self.tombstones[base]

    def truncated(self, base_offset: int, *, now_ms: int) -> None:
        """The log is cut in the segment at `base_offset`. What is left of that one is dirty, and
        may hold tombstones; nobody counts them."""
        first_ms, _ = self.tombstones.get(base_offset, (now_ms, 0))
        for base in [base for base in self.tombstones if base >= base_offset]:
            del self.tombstones[base]
        self.tombstones[base_offset] = SegmentTombstones(first_ms, 0)
        if self.ranges:
            kept = (each for each in self.ranges if each.first_offset < base_offset)
            self.ranges = tuple(kept)
        self.watched_from_offset = min(self.watched_from_offset, base_offset + 1)

    @property
    def fresh_tombstones(self) -> int:
        """Tombstones written since this process started that no pass has seen yet."""
        return sum(each.total for each in self.tombstones.values())

    def oldest_tombstone_ms(self, facts: LogFacts, first_dirty_offset: int) -> int | None:
        """When the oldest tombstone that no pass has seen was, or may have been, written."""
        times = (
            self.tombstone_ms(segment) for segment in dirty_segments(facts, first_dirty_offset)
        )
        return min((time for time in times if time is not None), default=None)

    def tombstone_ms(self, segment: DirtySegment) -> int | None:
        """When the segment's first tombstone was, or may have been, written."""
        known = self.tombstones.get(segment.base_offset)
        seen_ms = known.first_ms if known is not None else None
        if segment.base_offset >= self.watched_from_offset:
            return seen_ms
        # Written before this process started: its first record could be a tombstone. Where that has
        # no time, the segment has one: its file's, if no record has any.
        first_ms = segment.first_timestamp
        written_ms = first_ms if first_ms > 0 else segment.largest_timestamp
        written_ms = min(written_ms, self.watched_from_ms)
        return written_ms if seen_ms is None else min(seen_ms, written_ms)


def dirty_segments(facts: LogFacts, first_dirty_offset: int) -> list[DirtySegment]:
    """Segments with data that no pass has seen, including the active one."""
    segments = facts.segments[facts.floor_index(first_dirty_offset) :]
    return [each for each in segments if each.size_bytes > 0]


def due_times(
    facts: LogFacts,
    log: LogToClean,
    pending: Pending,
    *,
    tombstone_lag_ms: int,
    holds: Holds = NO_HOLDS,
) -> Iterator[Due]:
    """Everything that will make a pass due, and when; times in the past are due now."""
    has_sealed = facts.segments[0].base_offset < log.first_uncleanable_offset
    horizon_ms = pending.released_ms(holds)
    if has_sealed and horizon_ms is not None:
        yield Due(CleaningReason.HORIZON, horizon_ms)
    has_clean_part = log.first_dirty_offset > facts.segments[0].base_offset
    if has_sealed and has_clean_part and not pending.horizons_are_known and log.clean_bytes > 0:
        yield Due(CleaningReason.UNKNOWN_HORIZONS, 0)
    for segment in dirty_segments(facts, log.first_dirty_offset):
        lag_ms = facts.max_compaction_lag_ms
        if lag_ms < INT64_MAX and segment.first_timestamp > 0:
            # Kafka's comparison is strict.
            yield Due(CleaningReason.LAG, segment.first_timestamp + lag_ms + 1, segment.base_offset)
        written_ms = pending.tombstone_ms(segment)
        if written_ms is not None:
            yield Due(CleaningReason.TOMBSTONE, written_ms + tombstone_lag_ms, segment.base_offset)


def must_roll(facts: LogFacts, dues: list[Due], *, now_ms: int) -> bool:
    """Whether the due records are in the active segment, which no pass touches."""
    active = facts.segments[-1]
    # A pass cannot clean past an open transaction, and min.compaction.lag.ms protects a segment by
    # its youngest record. Rolling for either would only make small segments.
    if active.size_bytes == 0 or facts.last_stable_offset < facts.log_end_offset:
        return False
    lag_ms = facts.min_compaction_lag_ms
    if lag_ms > 0 and active.largest_timestamp > now_ms - lag_ms:
        return False
    return any(due.at_ms <= now_ms and due.segment_base == active.base_offset for due in dues)


def reason_now(
    log: LogToClean, pending: Pending, dues: list[Due], *, now_ms: int
) -> CleaningReason | None:
    """The strongest reason for a pass now, if a pass could resolve it."""
    if now_ms < pending.rest_until_ms:
        return None
    reasons = [due.reason for due in dues if due.at_ms <= now_ms and _can_act(log, due)]
    return next((reason for reason in CleaningReason if reason in reasons), None)


def _can_act(log: LogToClean, due: Due) -> bool:
    if due.segment_base is None:
        return True
    return log.cleanable_bytes > 0 and due.segment_base < log.first_uncleanable_offset
