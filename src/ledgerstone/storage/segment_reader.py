"""Finds and reads batches in one segment. Grade D.

Maps an offset or a timestamp to a position: by bookmarks, then the indexes, then the batches
themselves. An index is trusted only as far as the log agrees, README.md, "Damage"; CorruptFile
names the file that is wrong, and `segment` mends it.

Invariant: `size` counts whole batches only. Bytes beyond it in the file are debris of a failed
write and are never read.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

from ledgerstone.errors import CorruptFile, CorruptRecord, KafkaError
from ledgerstone.fs import FileSlice, Filesystem
from ledgerstone.records.batch import HEADER_SIZE, BatchHeader, read_header
from ledgerstone.records.compression import stored_limit
from ledgerstone.records.record import records_payload
from ledgerstone.records.record_times import first_from
from ledgerstone.storage.batch_scan import scan_headers
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.first_read import FirstRead
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.segment_files import SegmentFiles
from ledgerstone.storage.time_index import TimestampOffset
from ledgerstone.types import Buffer

# Readers continue where they stopped. Each segment remembers this many of these places.
MAX_BOOKMARKS: Final = 16
# Slices up to this size are measured by their batches; the index might need a disk read.
UNINDEXED_BYTES: Final = 32 * 1024


class FoundBatch(NamedTuple):
    position: int
    size: int
    last_offset: int


class SegmentReader(SegmentFiles):
    """Changes nothing on disk, and in memory only its caches."""

    __slots__ = ("_bookmarks", "_first_read", "holes", "is_gapless", "size")

    def __init__(
        self,
        fs: Filesystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        suffix: str,
        size: int,
    ) -> None:
        super().__init__(fs, directory, base_offset, config, suffix=suffix)
        self.size = size
        # Position by offset: where a read ended and the next one is likely to begin.
        self._bookmarks: dict[int, int] = {}
        # None: every batch was checked, or was written since this start.
        self._first_read: FirstRead | None = None
        # Damaged ranges of the file; data beyond them is still served.
        self.holes: tuple[tuple[int, int], ...] = ()
        # The log was never compacted: each batch begins where the one before it ends.
        self.is_gapless = False

    # -- what is in it ------------------------------------------------------------------------

    def header_at(self, position: int) -> BatchHeader:
        return read_header(self.file.pread(HEADER_SIZE, position))

    def headers(self) -> Iterator[BatchHeader]:
        """The header of every batch."""
        return (header for _, header in self._scan(0))

    def _scan(self, start: int) -> Iterator[tuple[int, BatchHeader]]:
        """Headers from `start` to the end, without the holes. CorruptFile if a batch does not
        follow the one before it: `size` counts whole batches."""
        at = start
        for hole_start, hole_end in (*self.holes, (self.size, self.size)):
            if at >= hole_end > hole_start:
                continue
            try:
                for position, header in scan_headers(self.file, at, hole_start):
                    yield position, header
                    at = position + header.size
            except CorruptRecord as error:
                raise CorruptFile(self.path(Kind.LOG), at, str(error)) from error
            if at < hole_start:
                reason = f"the batch does not end before {hole_start}"
                raise CorruptFile(self.path(Kind.LOG), at, reason)
            at = max(at, hole_end)

    def next_offset(self) -> int:
        """One past the last offset, read from the tail; the base offset if empty."""
        last_offset = self.base_offset - 1
        position = self._indexed_position(self.offset_index.last_offset)
        for _, header in self._scan(position) if self.size else ():
            last_offset = header.last_offset
        return last_offset + 1

    def payload_at(self, position: int, header: BatchHeader) -> Buffer:
        """The records of the batch at `position`, decompressed."""
        limit = stored_limit(self.config.max_message_bytes)
        return records_payload(self.file.pread(header.size, position), 0, header, limit=limit)

    # -- find ---------------------------------------------------------------------------------

    def _indexed_position(self, offset: int) -> int:
        """Where to look for an offset. CorruptFile names the index if it is wrong."""
        entry = self.offset_index.lookup(offset)
        if entry.position == 0 or self.size == 0:
            return 0
        reason = f"entry (offset {entry.offset}, position {entry.position}) "
        if not 0 < entry.position <= self.size - HEADER_SIZE:
            reason += f"lies outside of {self.size} bytes of log"
            raise CorruptFile(self.offset_index.path, 0, reason)
        try:
            header = read_header(self.file.pread(HEADER_SIZE, entry.position))
        except KafkaError as error:
            raise CorruptFile(
                self.offset_index.path, 0, f"{reason}does not lead to a batch"
            ) from error
        if header.base_offset > entry.offset:
            reason += f"leads to a batch that begins at offset {header.base_offset}"
            raise CorruptFile(self.offset_index.path, 0, reason)
        return entry.position

    def _floor_position(self, limit: int) -> int:
        position = self.offset_index.floor_position(limit)
        if not 0 <= position <= self.size:
            reason = f"position {position} lies outside of {self.size} bytes of log"
            raise CorruptFile(self.offset_index.path, 0, reason)
        return position

    def _check_time_entry(self, timestamp: int, offset: int) -> None:
        """Retention relies on it: a wrong entry would delete young records."""
        if timestamp < 0 and offset == self.base_offset:
            # There is no entry. One of a time before 1970 is never made.
            return
        try:
            position = self._indexed_position(offset)
            header = next(
                header for _, header in self._scan(position) if header.last_offset >= offset
            )
        except (StopIteration, CorruptRecord):
            header = None
        if header is None or header.base_offset > offset or header.max_timestamp != timestamp:
            reason = f"entry (timestamp {timestamp}, offset {offset}) does not match the log"
            raise CorruptFile(self.time_index.path, 0, reason)

    def find(self, offset: int, start_position: int = 0) -> FoundBatch | None:
        """The first batch that ends at or after `offset`."""
        position = self._bookmarks.get(offset)
        if position is None:
            position = self._indexed_position(offset)
        for at, header in self._scan(max(position, start_position)):
            if header.last_offset >= offset:
                if self.holes and header.base_offset > offset and at in self._ends_of_holes():
                    self._refuse_hole(offset)
                return FoundBatch(at, header.size, header.last_offset)
        if self.holes and self.size in self._ends_of_holes():
            self._refuse_hole(offset)
        return None

    def _ends_of_holes(self) -> list[int]:
        return [end for _, end in self.holes]

    def _refuse_hole(self, offset: int) -> NoReturn:
        raise CorruptRecord(f"offset {offset} lies in a damaged part of {self.path(Kind.LOG)}")

    def find_by_timestamp(self, timestamp: int, start_offset: int) -> TimestampOffset | None:
        """The first record at or after `start_offset` whose timestamp is at least `timestamp`."""
        entry = self.time_index.lookup(timestamp)
        self._check_time_entry(*entry)
        position = self._indexed_position(max(entry.offset, start_offset))
        for at, header in self._scan(position):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            found = first_from(
                header, self.payload_at(at, header), timestamp=timestamp, start_offset=start_offset
            )
            if found is not None:
                return TimestampOffset(*found)
        return None

    # -- read ---------------------------------------------------------------------------------

    def read(
        self, start_offset: int, *, max_bytes: int, end_position: int, min_one_batch: bool
    ) -> FileSlice | None:
        """Whole batches from the one holding `start_offset`, up to `max_bytes` and `end_position`.

        None when nothing at or after the offset lies before `end_position`; a slice of size 0 when
        the first batch is larger than allowed."""
        position = self._bookmarks.get(start_offset)
        if position is None:
            found = self.find(start_offset)
            if found is None:
                return None
            position = found.position
        if position >= end_position:
            return None
        for start, _ in self.holes:
            if position < start < end_position:
                end_position = start
        limit = position + max_bytes
        if limit >= end_position:
            # The usual case at the log's end: no need to read the file.
            end = end_position
        else:
            end, next_offset = self._last_batch_end(position, limit, min_one_batch)
            if next_offset is not None:
                self.bookmark(next_offset, end)
        if self._first_read is not None and not self._first_read.holds(position, end):
            self._check_first_read(self._first_read, position, end, start_offset)
        return FileSlice(self.file, position, end - position)

    def _last_batch_end(
        self, position: int, limit: int, min_one_batch: bool
    ) -> tuple[int, int | None]:
        """The last batch boundary up to `limit`, and an offset to be found there.

        With `min_one_batch`, never before the end of the first batch."""
        start = position
        if limit - position > UNINDEXED_BYTES:
            # An index entry is the start of a batch, so all batches before it fit.
            start = max(position, self._floor_position(limit))
        end, next_offset = start, None
        for at, header in self._scan(start):
            end = at + header.size
            if end > limit and not (min_one_batch and at == position):
                return at, header.base_offset
            next_offset = header.next_offset
            if end >= limit:
                break
        return end, next_offset

    def bookmark(self, offset: int, position: int) -> None:
        """Remembers that the first batch ending at or after `offset` begins at `position`, or will
        begin there if that is the end. Valid until the segment is cut.

        Kept after use: other readers may follow closely."""
        if self._bookmarks.pop(offset, None) is None and len(self._bookmarks) >= MAX_BOOKMARKS:
            del self._bookmarks[next(iter(self._bookmarks))]
        self._bookmarks[offset] = position

    def doubt(self) -> None:
        """The segment was on disk before this start, and its batches are unchecked."""
        self._first_read = FirstRead(self.base_offset)

    def _check_first_read(
        self, first_read: FirstRead, start: int, end: int, start_offset: int
    ) -> None:
        first_read.check(
            self.file, self.path(Kind.LOG), start, end, start_offset, is_gapless=self.is_gapless
        )
        if first_read.covers(self.size):
            self._first_read = None
