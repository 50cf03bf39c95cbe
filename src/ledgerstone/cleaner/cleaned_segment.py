"""A new segment written in bulk: whole windows at a time, index entries as columns. Grade D.

What comes out is what `storage.Segment` would have written batch by batch, with the entries where
storage/README.md says they are made; a test compares the two. Here a window of a MiB may hold ten
thousand batches, and an object for each of them would cost more than all the rest of a pass.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledgerstone.errors import SegmentOffsetOverflow, StorageError
from ledgerstone.fs import Filesystem
from ledgerstone.records.kernels.windows import Int64s
from ledgerstone.storage import offset_index, time_index
from ledgerstone.storage.filenames import CLEANED, Kind
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import INT32_MAX, NO_TIMESTAMP, Buffer

# The entries of the two indexes as numpy sees them; the formats belong to storage.
OFFSET_ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
assert OFFSET_ENTRY.itemsize == offset_index.ENTRY_BYTES
assert TIME_ENTRY.itemsize == time_index.ENTRY_BYTES


class WrittenBatches(NamedTuple):
    """The batches of one append, a row each."""

    size: Int64s
    last_offset: Int64s
    max_timestamp: Int64s


class CleanedSegment:
    """`.cleaned` files from `create` to `finish`; then complete, synced, never touched again.

    Entries wait in memory, which segment.index.bytes bounds."""

    __slots__ = (
        "_fs",
        "_indexed_position",
        "_is_full",
        "_newest",
        "_offset_entries",
        "_offset_entry_count",
        "_segment",
        "_time_entries",
        "_time_entry_count",
        "_time_indexed",
        "size",
    )

    def __init__(
        self, fs: Filesystem, directory: str, base_offset: int, config: LogConfig, *, now_ms: int
    ) -> None:
        self._fs = fs
        self._segment = Segment(
            fs, directory, base_offset, config, created_ms=now_ms, suffix=CLEANED
        )
        self.size = 0
        # Where the batch of the last index entry begins; counting starts with the segment.
        self._indexed_position = 0
        # The largest timestamp so far, and the last offset of the first batch that carries it.
        self._newest = (NO_TIMESTAMP, base_offset)
        self._time_indexed = NO_TIMESTAMP
        self._is_full = False
        self._offset_entries: list[bytes] = []
        self._offset_entry_count = 0
        self._time_entries: list[bytes] = []
        self._time_entry_count = 0

    def create(self) -> None:
        # What an earlier pass left behind when its process died.
        self._segment.unlink()
        self._segment.create()

    @property
    def base_offset(self) -> int:
        return self._segment.base_offset

    def append(self, data: Buffer, batches: WrittenBatches) -> None:
        if not self._segment.fits(int(batches.last_offset[-1])):
            raise SegmentOffsetOverflow(
                f"{self._segment.path(Kind.LOG)}: offset {batches.last_offset[-1]} is too far from "
                f"base offset {self.base_offset}"
            )
        if self.size + len(data) > INT32_MAX:
            raise StorageError(
                f"{self._segment.path(Kind.LOG)}: {len(data)} bytes at {self.size}, a segment "
                f"holds {INT32_MAX}"
            )
        self._segment.file.pwrite(data, self.size)
        self._index(batches)
        self.size += len(data)

    def add_aborted_txn(self, entry: AbortedTxnEntry) -> None:
        self._segment.add_aborted_txn(entry)

    def finish(self, mtime_ms: int) -> None:
        """Writes the indexes and syncs everything."""
        timestamp, offset = self._newest
        if timestamp > self._time_indexed:
            self._add_time_entries(np.array([timestamp]), np.array([offset]))
        self._write(Kind.INDEX, self._offset_entries)
        self._write(Kind.TIME_INDEX, self._time_entries)
        self._segment.flush()
        # Retention goes by the file's time where records have none, so it must not look new.
        for kind in (Kind.LOG, Kind.INDEX, Kind.TIME_INDEX):
            self._fs.set_mtime_ms(self._segment.path(kind), mtime_ms)
        self._segment.forget()

    def discard(self) -> None:
        self._segment.unlink()

    def _write(self, kind: Kind, entries: list[bytes]) -> None:
        file = self._fs.open(self._segment.path(kind), create=True)
        try:
            file.pwrite(b"".join(entries), 0)
        finally:
            file.close()

    def _index(self, batches: WrittenBatches) -> None:
        positions = self.size + np.cumsum(batches.size) - batches.size
        newest_at = self._newest_batches(batches)
        timestamps = np.append(batches.max_timestamp, self._newest[0])[newest_at]
        offsets = np.append(batches.last_offset, self._newest[1])[newest_at]
        due = [] if self._is_full else self._due(positions)
        if due:
            # Time entries rise: the same largest timestamp again is no news.
            before = np.concatenate(([self._time_indexed], timestamps[due][:-1]))
            rises = timestamps[due] > before
            room = self._room(rises)
            if room < len(due):
                self._is_full = True
                due, rises = due[:room], rises[:room]
        if due:
            self._add_offset_entries(batches.last_offset[due], positions[due])
            self._add_time_entries(timestamps[due][rises], offsets[due][rises])
        self._newest = (int(timestamps[-1]), int(offsets[-1]))

    def _due(self, positions: Int64s) -> list[int]:
        """Batches that begin more than index.interval.bytes behind the last indexed one."""
        interval_bytes = self._segment.config.index_interval_bytes
        starts: list[int] = positions.tolist()
        due: list[int] = []
        index = bisect_right(starts, self._indexed_position + interval_bytes)
        while index < len(starts):
            due.append(index)
            self._indexed_position = starts[index]
            index = bisect_right(starts, self._indexed_position + interval_bytes, index + 1)
        return due

    def _room(self, rises: NDArray[np.bool_]) -> int:
        """How many of the entries both indexes have a slot for; a full one takes no more, ever."""
        offset_room = self._segment.offset_index.max_entries - self._offset_entry_count
        # One slot stays free for the entry that finishing adds.
        time_room = self._segment.time_index.max_entries - 1 - self._time_entry_count
        before: Int64s = np.cumsum(rises) - rises
        return min(offset_room, int(np.searchsorted(before, time_room)))

    def _newest_batches(self, batches: WrittenBatches) -> NDArray[np.intp]:
        """For each batch the first one up to it with the largest timestamp; -1: one before them."""
        so_far = np.maximum.accumulate(np.concatenate(([self._newest[0]], batches.max_timestamp)))
        rises = so_far[1:] > so_far[:-1]
        where = np.where(rises, np.arange(len(rises)), -1)
        return np.maximum.accumulate(where)

    def _add_offset_entries(self, offsets: Int64s, positions: Int64s) -> None:
        entries = np.empty(len(offsets), OFFSET_ENTRY)
        entries["relative_offset"] = offsets - self.base_offset
        entries["position"] = positions
        self._offset_entries.append(entries.tobytes())
        self._offset_entry_count += len(entries)

    def _add_time_entries(self, timestamps: Int64s, offsets: Int64s) -> None:
        if not len(timestamps):
            return
        entries = np.empty(len(timestamps), TIME_ENTRY)
        entries["timestamp"] = timestamps
        entries["relative_offset"] = offsets - self.base_offset
        self._time_entries.append(entries.tobytes())
        self._time_entry_count += len(entries)
        self._time_indexed = int(timestamps[-1])
