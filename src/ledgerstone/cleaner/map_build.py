"""The first half of a pass: the latest offset of each key in the dirty part of the log. Grade D.

Reads the dirty segments in order and stops where the map is full; `latest_offset` is then how far
the pass reaches. Control batches and aborted data never enter the map: a marker is not a record of
its key, and an aborted value must not supersede a committed one.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ledgerstone.cleaner.aborted_txns import AbortedTxns
from ledgerstone.cleaner.judgement import control_type
from ledgerstone.cleaner.offset_map import FullAt, OffsetMap
from ledgerstone.cleaner.plan import CleaningPlan, PassStats, SourceSegment
from ledgerstone.cleaner.windows import SourceReader, SourceWindow
from ledgerstone.errors import CorruptFile, KafkaError
from ledgerstone.records.batch import CONTROL_FLAG, HEADER_SIZE, TRANSACTIONAL_FLAG
from ledgerstone.records.kernels import BatchAction
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.txn_index import AbortedTxnEntry

_DISCARD: Final = np.uint8(BatchAction.DISCARD)


class MapBuilder:
    """Fills one map. For a single `build`."""

    __slots__ = ("_charge", "_first_dirty_offset", "_map", "_open", "_reader", "_stats", "_txns")

    def __init__(
        self,
        plan: CleaningPlan,
        offset_map: OffsetMap,
        txns: AbortedTxns[AbortedTxnEntry],
        reader: SourceReader,
        stats: PassStats,
        *,
        open_source: Callable[[SourceSegment], Segment],
        charge: Callable[[int], None],
    ) -> None:
        self._first_dirty_offset = plan.first_dirty_offset
        self._map = offset_map
        self._txns = txns
        self._reader = reader
        self._stats = stats
        self._open = open_source
        self._charge = charge

    def build(self, dirty: Sequence[SourceSegment]) -> None:
        for source in dirty:
            if not self._map_segment(source):
                return
            # Unused offsets at a segment's end must not hold up the next pass.
            self._map.latest_offset = source.end_offset - 1

    def _map_segment(self, source: SourceSegment) -> bool:
        """Whether all of the segment went in."""
        segment = self._open(source)
        path = segment.path(Kind.LOG)
        start = self._start_in(segment, source)
        for window in self._reader.windows(segment.file, path, source, start_position=start):
            self._stats.map_bytes_read += window.size_bytes
            self._charge(window.size_bytes)
            try:
                is_mapped = self._map_window(window, path)
            except KafkaError as error:
                raise CorruptFile(path, window.position, str(error)) from error
            if not is_mapped:
                return False
        return True

    def _start_in(self, segment: Segment, source: SourceSegment) -> int:
        """Where to begin. The index saves time and no more: where it leads past the first dirty
        offset, the map would lack tombstones, and what they delete would outlive them."""
        first_dirty = self._first_dirty_offset
        position = segment.offset_index.lookup(first_dirty).position
        if not 0 < position <= source.size_bytes - HEADER_SIZE:
            return 0
        try:
            return position if segment.header_at(position).base_offset <= first_dirty else 0
        except KafkaError:
            return 0

    def _map_window(self, window: SourceWindow, path: str) -> bool:
        first_dirty = self._first_dirty_offset
        # Only the first dirty window has clean batches and records to skip one by one.
        is_all_dirty = window.batches.base_offset[0] >= first_dirty
        min_offset = None if is_all_dirty else first_dirty
        if is_all_dirty and not window.checked.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG):
            actions = self._reader.no_actions(window)
        else:
            actions = self._not_data(window)
        for payloads in self._reader.payloads(window, actions, path):
            full_at = self._map.put(payloads, actions, min_offset=min_offset)
            if full_at is not None:
                self._stop_before(window, full_at)
                return False
        if window.last_offset >= first_dirty:
            self._map.latest_offset = window.last_offset
        return True

    def _not_data(self, window: SourceWindow) -> NDArray[np.uint8]:
        """DISCARD for batches that stay out of the map: markers, aborted data, clean ones."""
        batches = window.batches
        clean = batches.last_offset < self._first_dirty_offset
        actions = clean * _DISCARD
        in_txn = (batches.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG)) != 0
        for index in np.flatnonzero(in_txn & ~clean).tolist():
            producer_id = int(batches.producer_id[index])
            last_offset = int(batches.last_offset[index])
            if batches.attributes[index] & CONTROL_FLAG:
                kind = control_type(window.view, batches, index)
                self._txns.on_marker(producer_id, last_offset, kind)
                actions[index] = _DISCARD
            elif self._txns.on_data(producer_id, last_offset):
                actions[index] = _DISCARD
        return actions

    def _stop_before(self, window: SourceWindow, full_at: FullAt) -> None:
        """The map is full: it covers everything before the record that did not fit."""
        before = full_at.batch - 1
        if before >= 0 and window.batches.last_offset[before] >= self._first_dirty_offset:
            self._map.latest_offset = int(window.batches.last_offset[before])
        if full_at.last_put_offset is not None:
            self._map.latest_offset = full_at.last_put_offset
