"""The second half of a pass: copies a group of segments into one, dropping records. Grade D.

Writes `.cleaned` files and nothing else; they are complete and synced when `copy` returns. If it
raises, they are removed. Unchanged batches are copied as bytes, even compressed ones; a batch is
rebuilt only if it loses a record or gets a horizon.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ledgerstone.cleaner.aborted_txns import AbortedTxns
from ledgerstone.cleaner.cleaned_segment import CleanedSegment, WrittenBatches
from ledgerstone.cleaner.judgement import BatchJudge
from ledgerstone.cleaner.offset_map import OffsetMap
from ledgerstone.cleaner.plan import (
    CleanedGroup,
    CleaningPlan,
    OffsetSpan,
    PassStats,
    SourceSegment,
    TombstoneRange,
)
from ledgerstone.cleaner.tombstone_ranges import TraceCollector
from ledgerstone.cleaner.windows import SourceReader, SourceWindow
from ledgerstone.errors import CorruptFile, KafkaError
from ledgerstone.fs import Filesystem
from ledgerstone.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from ledgerstone.records.compression import Codecs
from ledgerstone.records.kernels import CleanedPayloads, Payloads, RewriteOutcome
from ledgerstone.records.kernels.cleaning import room_for
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import INT64_MAX

_EMPTIED: Final = int(RewriteOutcome.EMPTIED)


class GroupCopier:
    """Copies the groups of one pass, in the order of the log."""

    __slots__ = (
        "_charge",
        "_codecs",
        "_config",
        "_fs",
        "_held_from_offset",
        "_judge",
        "_map",
        "_open",
        "_out",
        "_plan",
        "_reader",
        "_removed_to",
        "_stats",
        "_txns",
        "traces",
    )

    def __init__(
        self,
        fs: Filesystem,
        plan: CleaningPlan,
        offset_map: OffsetMap,
        txns: AbortedTxns[AbortedTxnEntry],
        reader: SourceReader,
        stats: PassStats,
        *,
        config: LogConfig,
        open_source: Callable[[SourceSegment], Segment],
        charge: Callable[[int], None],
    ) -> None:
        self._fs = fs
        self._plan = plan
        self._map = offset_map
        self._txns = txns
        self._judge = BatchJudge(plan, txns)
        self._reader = reader
        self._stats = stats
        self.traces = TraceCollector()
        self._config = config
        self._open = open_source
        self._charge = charge
        self._codecs = Codecs()
        self._out = np.empty(0, np.uint8)
        self._removed_to = 0
        held_from = plan.held_from_offset
        self._held_from_offset = INT64_MAX if held_from is None else held_from

    def copy(self, group: Sequence[SourceSegment]) -> CleanedGroup:
        plan = self._plan
        self._removed_to = 0
        cleaned = CleanedSegment(
            self._fs, plan.directory, group[0].base_offset, self._config, now_ms=plan.now_ms
        )
        try:
            cleaned.create()
            for source in group:
                self._copy_segment(source, cleaned)
            cleaned.finish(group[-1].mtime_ms)
        except BaseException:
            # Files that cannot be removed now are discarded when the log is opened.
            with suppress(OSError):
                cleaned.discard()
            raise
        return CleanedGroup(
            source_bases=tuple(source.base_offset for source in group),
            base_offset=cleaned.base_offset,
            size_bytes=cleaned.size,
            removed_to=self._removed_to,
        )

    def _copy_segment(self, source: SourceSegment, cleaned: CleanedSegment) -> None:
        segment = self._open(source)
        path = segment.path(Kind.LOG)
        for window in self._reader.windows(segment.file, path, source):
            self._stats.bytes_read += window.size_bytes
            self._stats.records_read += window.checked.records
            written = cleaned.size
            try:
                if self._judge.has_no_say(window.checked, window.last_offset):
                    actions = self._reader.no_actions(window)
                else:
                    actions = self._decide(window)
                by_bits = self._discard_superseded(window, actions)
                self._copy_window(window, actions, path, cleaned, by_bits=by_bits)
            except KafkaError as error:
                raise CorruptFile(path, window.position, str(error)) from error
            for entry in self._txns.take_kept():
                cleaned.add_aborted_txn(entry)
            self._charge(window.size_bytes + cleaned.size - written)

    def _decide(self, window: SourceWindow) -> NDArray[np.uint8]:
        decisions = self._judge.decide(window.view, window.batches)
        self._stats.dropped_aborted += decisions.dropped_aborted
        self._stats.dropped_markers += decisions.dropped_markers
        self._removed_to = max(self._removed_to, decisions.removed_to)
        if decisions.held_markers:
            self._stats.markers_held += len(decisions.held_markers)
            self.traces.add(decisions.held_markers, None)
        marker_ms = decisions.earliest_horizon_ms
        self._note_horizon(marker_ms)
        self._stats.earliest_marker_horizon_ms = _earlier(
            self._stats.earliest_marker_horizon_ms, marker_ms
        )
        return decisions.actions

    def _discard_superseded(self, window: SourceWindow, actions: NDArray[np.uint8]) -> bool:
        """Discards batches without opening them; returns whether the map could decide.

        It can for data that it was built from, unless it is transactional and may be aborted."""
        if window.checked.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG):
            return False
        if window.batches.base_offset[0] < self._plan.first_dirty_offset:
            return False
        records = self._map.discard_superseded(window.batches, actions)
        if records is None:
            return False
        self._stats.dropped_superseded += records
        return True

    def _copy_window(
        self,
        window: SourceWindow,
        actions: NDArray[np.uint8],
        path: str,
        cleaned: CleanedSegment,
        *,
        by_bits: bool,
    ) -> None:
        for payloads in self._reader.payloads(window, actions, path):
            left = self._map.clean(
                payloads,
                actions,
                by_bits=by_bits,
                now_ms=self._plan.now_ms,
                held_from_offset=self._held_from_offset,
                new_horizon_ms=self._plan.new_horizon_ms,
                held_after_ms=self._plan.held_after_ms,
                removable_to=self._plan.removable_to,
                out=self._room_for(window, payloads),
                codecs=self._codecs,
            )
            self._count(left)
            last_offset = window.batches.last_offset[payloads.first : payloads.end]
            rows = WrittenBatches(left.size, last_offset, left.max_timestamp)
            cleaned.append(left.data, rows)
            emptied = left.outcome == _EMPTIED
            if emptied.any():
                # Batches that already had no records do not count.
                emptied &= window.batches.record_count[payloads.first : payloads.end] > 0
                self._stats.batches_emptied += int(emptied.sum())

    def _room_for(self, window: SourceWindow, payloads: Payloads) -> NDArray[np.uint8]:
        needed = room_for(payloads, window.size_bytes, window.checked.records)
        # Reused, because allocating fresh memory costs more than filling it.
        if needed > len(self._out):
            self._out = np.empty(needed, np.uint8)
        return self._out

    def _count(self, left: CleanedPayloads) -> None:
        stats = self._stats
        stats.bytes_written += len(left.data)
        stats.records_kept += left.kept
        stats.dropped_superseded += left.superseded
        stats.dropped_tombstones += left.expired
        stats.dropped_keyless += left.keyless
        stats.tombstones_kept += left.tombstones_kept
        stats.tombstones_stamped += left.tombstones_stamped
        stats.tombstones_held += left.tombstones_held
        self._note_horizon(left.earliest_horizon_ms)
        if left.removed is None and not left.ranges:
            return
        if left.removed is not None:
            self._removed_to = max(self._removed_to, left.removed[1] + 1)
        self.traces.add(
            map(TombstoneRange._make, left.ranges),
            None if left.removed is None else OffsetSpan._make(left.removed),
        )

    def _note_horizon(self, horizon_ms: int | None) -> None:
        self._stats.earliest_horizon_ms = _earlier(self._stats.earliest_horizon_ms, horizon_ms)


def _earlier(known_ms: int | None, other_ms: int | None) -> int | None:
    if known_ms is None or other_ms is None:
        return other_ms if known_ms is None else known_ms
    return min(known_ms, other_ms)
