"""The input and output of a cleaning pass: plain facts, so that it can run anywhere.

Pure. The owner of the log makes a plan from sealed segments only, sends it to a worker, and swaps
in what the worker wrote. The worker writes `.cleaned` files and nothing else; abandoning a plan
wastes only those files.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.records.compression import STORED_LIMIT
from ledgerstone.types import INT64_MAX, TopicPartition

# Stands for "no horizon" where batches are judged.
LAST_HORIZON_MS: Final = INT64_MAX - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    """One sealed segment to read. Its files do not change while the plan is in use."""

    base_offset: int
    end_offset: int  # the next segment's base: all its records lie below
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int
    mtime_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The last batch of a live producer; the pass keeps it, emptied if necessary."""

    last_data_offset: int | None  # None when only markers are known
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    """Everything one pass needs. `now_ms` is the pass's only reading of the clock."""

    topic_partition: TopicPartition
    directory: str
    segments: tuple[SourceSegment, ...]  # from the log's first to below first_uncleanable_offset
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    producers: Mapping[int, LastBatch] = field(default_factory=dict)
    # Tombstones at or above this offset stay even past their horizon: a group has not seen them
    # yet.
    held_from_offset: int | None = None
    # But no longer than this past their horizon.
    hold_max_ms: int = INT64_MAX
    # Tombstones and emptied markers from here on stay: another replica may hold an older value.
    removable_to: int = INT64_MAX
    dedupe_buffer_bytes: int = 128 << 20
    load_factor: float = 0.9
    window_bytes: int = 2 << 20
    # The most that one batch's records may decompress to.
    decompression_limit_bytes: int = STORED_LIMIT
    bytes_per_second: float | None = None  # None is unlimited; reads and writes count

    @property
    def new_horizon_ms(self) -> int:
        """The horizon this pass sets. Infinite retention must not wrap around into the past."""
        return min(self.now_ms + self.delete_retention_ms, LAST_HORIZON_MS)

    @property
    def held_after_ms(self) -> int:
        """Tombstones whose horizon is not later than this have been held long enough."""
        return self.now_ms - self.hold_max_ms


@dataclass(slots=True, kw_only=True)
class PassStats:
    """What a pass read, kept and dropped, by reason. Added up over its groups."""

    bytes_read: int = 0
    bytes_written: int = 0
    map_bytes_read: int = 0
    records_read: int = 0
    records_kept: int = 0
    dropped_superseded: int = 0
    dropped_tombstones: int = 0
    dropped_aborted: int = 0
    dropped_keyless: int = 0
    dropped_markers: int = 0
    tombstones_stamped: int = 0
    tombstones_held: int = 0
    markers_held: int = 0
    tombstones_kept: int = 0
    batches_emptied: int = 0
    map_entries: int = 0
    map_slots: int = 0
    # The earliest horizon that kept records wait for; None if none waits.
    earliest_horizon_ms: int | None = None
    # The same for transaction markers alone.
    earliest_marker_horizon_ms: int | None = None


class OffsetSpan(NamedTuple):
    first_offset: int
    last_offset: int

    def over(self, other: "OffsetSpan") -> "OffsetSpan":
        """The span from the first offset of both to the last."""
        return OffsetSpan(
            min(self.first_offset, other.first_offset), max(self.last_offset, other.last_offset)
        )


class TombstoneRange(NamedTuple):
    """Tombstones waiting for their horizon; other records may lie between them."""

    first_offset: int
    last_offset: int
    earliest_horizon_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneTraces:
    """Where a pass left tombstones, in log order, and where it removed some."""

    pending: tuple[TombstoneRange, ...] = ()
    removed: OffsetSpan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """Source segments that became one `.cleaned` segment with the first one's base."""

    source_bases: tuple[int, ...]
    base_offset: int
    size_bytes: int
    # Every tombstone and marker that was removed lay below; 0: none was.
    removed_to: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PassReport:
    """The end of a pass: `end_offset` becomes the first dirty offset of the next one."""

    topic_partition: TopicPartition
    end_offset: int
    groups: tuple[CleanedGroup, ...]
    stats: PassStats
    tombstones: TombstoneTraces | None = None  # None: not reported
