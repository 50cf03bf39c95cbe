"""The second half of a pass: a group of segments copied into one, without what must go. Grade D.

Writes `.cleaned` files and nothing else; they are complete and synced when `copy` returns. If it
does not return, they are removed. Batches that stay as they are travel as bytes, also compressed
ones; a batch is built anew only if a record of it goes or a horizon is set.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ledgerstone.cleaner.aborted_txns import AbortedTxns
from ledgerstone.cleaner.cleaned_segment import CleanedSegment, WrittenBatches
from ledgerstone.cleaner.judgement import BatchDecisions, BatchJudge
from ledgerstone.cleaner.offset_map import OffsetMap
from ledgerstone.cleaner.plan import CleanedGroup, CleaningPlan, PassStats, SourceSegment
from ledgerstone.cleaner.windows import SegmentReader, Window, corruption_named
from ledgerstone.fs import Filesystem
from ledgerstone.records.kernels import BatchAction, Columns, Judged, Outcome, rewrite
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import INT64_MAX, Buffer


class GroupCopier:
    """Copies the groups of one pass, in the order of the log."""

    __slots__ = (
        "_charge",
        "_config",
        "_fs",
        "_held_from_offset",
        "_judge",
        "_map",
        "_open",
        "_out",
        "_plan",
        "_reader",
        "_stats",
        "_txns",
    )

    def __init__(
        self,
        fs: Filesystem,
        plan: CleaningPlan,
        offset_map: OffsetMap,
        txns: AbortedTxns[AbortedTxnEntry],
        reader: SegmentReader,
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
        self._config = config
        self._open = open_source
        self._charge = charge
        # Room for most windows with every record grown; reused, because fresh memory costs more
        # than filling it.
        self._out = np.empty(2 * plan.window_bytes, np.uint8)
        held_from = plan.held_from_offset
        self._held_from_offset = INT64_MAX if held_from is None else held_from

    def copy(self, group: Sequence[SourceSegment]) -> CleanedGroup:
        plan = self._plan
        cleaned = CleanedSegment(
            self._fs, plan.directory, group[0].base_offset, self._config, now_ms=plan.now_ms
        )
        try:
            cleaned.create()
            for source in group:
                self._copy_segment(source, cleaned)
            cleaned.finish(group[-1].mtime_ms)
        except BaseException:
            # What cannot be removed now is thrown away when the log is opened.
            with suppress(OSError):
                cleaned.discard()
            raise
        return CleanedGroup(
            source_bases=tuple(source.base_offset for source in group),
            base_offset=cleaned.base_offset,
            size_bytes=cleaned.size,
        )

    def _copy_segment(self, source: SourceSegment, cleaned: CleanedSegment) -> None:
        segment = self._open(source)
        path = segment.path(Kind.LOG)
        for window in self._reader.windows(segment.file, path, source):
            self._stats.bytes_read += window.size_bytes
            self._stats.records_read += int(window.batches.record_count.sum())
            written = cleaned.size
            with corruption_named(path, window.position):
                decisions = self._judge.decide(window.view, window.batches)
            self._copy_window(window, decisions, path, cleaned)
            for entry in self._txns.take_kept():
                cleaned.add_aborted_txn(entry)
            self._charge(window.size_bytes + cleaned.size - written)

    def _copy_window(
        self, window: Window, decisions: BatchDecisions, path: str, cleaned: CleanedSegment
    ) -> None:
        self._stats.dropped_aborted += decisions.dropped_aborted
        self._stats.dropped_markers += decisions.dropped_markers
        self._note_horizon(decisions.earliest_horizon_ms)
        for first, columns in self._reader.walk(window, decisions.discarded, path):
            judged = self._map.judge(
                columns,
                now_ms=self._plan.now_ms,
                held_from_offset=self._held_from_offset,
                new_horizon_ms=self._plan.new_horizon_ms,
            )
            self._count(judged)
            actions = decisions.actions[first : first + len(columns.batches)]
            if self._changes(columns, judged, actions):
                self._append_rewritten(columns, judged, actions, cleaned)
            else:
                batches = columns.batches
                data = window.view[int(batches.position[0]) : columns.consumed]
                rows = batches.size, batches.last_offset, batches.max_timestamp
                self._append(data, WrittenBatches(*rows), cleaned)

    def _changes(self, columns: Columns, judged: Judged, actions: NDArray[np.uint8]) -> bool:
        """Whether any batch comes out other than it went in. One that has no records may go."""
        if judged.kept < len(columns) or judged.tombstones_stamped > 0:
            return True
        to_change = actions & (BatchAction.DISCARD | BatchAction.STAMP)
        return bool(to_change.any()) or not columns.batches.record_count.all()

    def _append_rewritten(
        self,
        columns: Columns,
        judged: Judged,
        actions: NDArray[np.uint8],
        cleaned: CleanedSegment,
    ) -> None:
        rewritten = rewrite(
            columns,
            judged.keep,
            actions=actions,
            delete_horizon_ms=self._plan.new_horizon_ms,
            out=self._out,
        )
        batches = columns.batches
        emptied = (rewritten.outcome == Outcome.EMPTIED) & (batches.record_count > 0)
        self._stats.batches_emptied += int(emptied.sum())
        left = rewritten.outcome != Outcome.DROPPED
        if left.any():
            rows = rewritten.size[left], batches.last_offset[left], rewritten.max_timestamp[left]
            self._append(rewritten.data, WrittenBatches(*rows), cleaned)

    def _append(self, data: Buffer, batches: WrittenBatches, cleaned: CleanedSegment) -> None:
        cleaned.append(data, batches)
        self._stats.bytes_written += len(data)

    def _count(self, judged: Judged) -> None:
        stats = self._stats
        stats.records_kept += judged.kept
        stats.dropped_superseded += judged.superseded
        stats.dropped_tombstones += judged.expired
        stats.dropped_keyless += judged.keyless
        stats.tombstones_kept += judged.tombstones_kept
        stats.tombstones_stamped += judged.tombstones_stamped
        stats.tombstones_held += judged.tombstones_held
        self._note_horizon(judged.earliest_horizon_ms)

    def _note_horizon(self, horizon_ms: int | None) -> None:
        if horizon_ms is not None:
            known = self._stats.earliest_horizon_ms
            self._stats.earliest_horizon_ms = (
                horizon_ms if known is None else min(known, horizon_ms)
            )
