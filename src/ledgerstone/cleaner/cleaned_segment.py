"""A new segment written in bulk: whole windows at a time, index entries as columns. Grade D.

The result is what `storage.Segment` would write batch by batch, with index entries by the rules of
storage/README.md; a test compares the two. A window of a MiB may hold ten thousand batches, and an
object for each would cost more than the rest of the pass.
"""

from typing import NamedTuple

from ledgerstone.errors import SegmentOffsetOverflow, StorageError
from ledgerstone.fs import Filesystem
from ledgerstone.records.kernels.index_entries import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    IndexEntries,
)
from ledgerstone.records.kernels.windows import Int64s
from ledgerstone.storage import offset_index, time_index
from ledgerstone.storage.filenames import CLEANED, Kind
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import INT32_MAX, Buffer

assert OFFSET_ENTRY_BYTES == offset_index.ENTRY_BYTES
assert TIME_ENTRY_BYTES == time_index.ENTRY_BYTES


class WrittenBatches(NamedTuple):
    """The batches of one append, a row each; a batch of zero bytes was dropped."""

    size: Int64s
    last_offset: Int64s
    max_timestamp: Int64s


class CleanedSegment:
    """`.cleaned` files from `create` to `finish`; then complete, synced, never touched again.

    Entries wait in memory, which segment.index.bytes bounds."""

    __slots__ = ("_entries", "_fs", "_segment", "size")

    def __init__(
        self, fs: Filesystem, directory: str, base_offset: int, config: LogConfig, *, now_ms: int
    ) -> None:
        self._fs = fs
        self._segment = Segment(
            fs, directory, base_offset, config, created_ms=now_ms, suffix=CLEANED
        )
        self._entries = IndexEntries(
            base_offset,
            interval_bytes=config.index_interval_bytes,
            offset_room=self._segment.offset_index.max_entries,
            # One slot stays free for the entry that finishing adds.
            time_room=self._segment.time_index.max_entries - 1,
        )
        self.size = 0

    def create(self) -> None:
        # Left behind by an earlier pass whose process died.
        self._segment.unlink()
        self._segment.create()

    @property
    def base_offset(self) -> int:
        return self._segment.base_offset

    def append(self, data: Buffer, batches: WrittenBatches) -> None:
        if not len(data):
            return
        last_offset = int(batches.last_offset[batches.size.nonzero()[0][-1]])
        if not self._segment.fits(last_offset):
            raise SegmentOffsetOverflow(
                f"{self._segment.path(Kind.LOG)}: offset {last_offset} is too far from "
                f"base offset {self.base_offset}"
            )
        if self.size + len(data) > INT32_MAX:
            raise StorageError(
                f"{self._segment.path(Kind.LOG)}: {len(data)} bytes at {self.size}; a segment "
                f"holds {INT32_MAX}"
            )
        self._segment.file.pwrite(data, self.size)
        self._entries.add(batches.size, batches.last_offset, batches.max_timestamp)
        self.size += len(data)

    def add_aborted_txn(self, entry: AbortedTxnEntry) -> None:
        self._segment.add_aborted_txn(entry)

    def finish(self, mtime_ms: int) -> None:
        """Writes the indexes and syncs everything."""
        self._entries.add_newest()
        self._write(Kind.INDEX, self._entries.offset_entries)
        self._write(Kind.TIME_INDEX, self._entries.time_entries)
        self._segment.flush()
        # Retention uses the file's time if records have none, so it must not look new.
        for kind in (Kind.LOG, Kind.INDEX, Kind.TIME_INDEX):
            self._fs.set_mtime_ms(self._segment.path(kind), mtime_ms)
        self._segment.forget()

    def discard(self) -> None:
        self._segment.unlink()

    def _write(self, kind: Kind, entries: bytearray) -> None:
        file = self._fs.open(self._segment.path(kind), create=True)
        try:
            file.pwrite(entries, 0)
        finally:
            file.close()
