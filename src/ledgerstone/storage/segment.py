"""One segment: a log file and its three indexes. Grade D.

Owns the bytes of a half-open offset range starting at `base_offset`. Knows how to append, find,
truncate, rebuild and rename itself; when to roll and what may be deleted is decided above.

Invariant: `size` counts whole batches only. Bytes beyond it in the file are debris of a failed
write and are never read. The rules for index entries are in README.md, "When an entry is made".
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from ledgerstone.errors import (
    CorruptFile,
    CorruptRecord,
    InvariantViolation,
    KafkaError,
    LogStorageError,
)
from ledgerstone.fs import File, FileSlice, Filesystem, join
from ledgerstone.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    read_header,
    verify_crc,
)
from ledgerstone.records.record import iter_records
from ledgerstone.storage.batch_scan import scan_batches, scan_headers
from ledgerstone.storage.damage_search import bad_spans
from ledgerstone.storage.filenames import Kind, file_name
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.offset_index import OffsetIndex
from ledgerstone.storage.segment_rebuild import IndexRoom, OnBatch, SegmentRebuild
from ledgerstone.storage.time_index import TimeIndex
from ledgerstone.storage.txn_index import AbortedTxnEntry, TxnIndex
from ledgerstone.types import INT32_MAX, INT64_MAX, NO_TIMESTAMP, Buffer

_LOG: Final = logging.getLogger(__name__)

# Readers go on where they stopped. So many of them are remembered by each segment.
MAX_BOOKMARKS: Final = 16
# A slice up to this size is measured by its batches alone; the index may have to come from disk.
UNINDEXED_BYTES: Final = 32 * 1024


# Told where a log file stops being good: position, size of the file, and the offset that was due.
OnBad = Callable[[int, int, int], None]


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class FoundBatch(NamedTuple):
    position: int
    size: int
    last_offset: int


class Segment:
    """Opens its files only when they are needed, so that an idle segment costs no descriptor."""

    __slots__ = (
        "_bookmarks",
        "_checked",
        "_file",
        "_first_timestamp",
        "_fs",
        "_max_timestamp",
        "_suffix",
        "base_offset",
        "bytes_since_index_entry",
        "config",
        "created_ms",
        "directory",
        "holes",
        "is_gapless",
        "offset_index",
        "roll_jitter_ms",
        "size",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        fs: Filesystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        created_ms: int,
        roll_jitter_ms: int = 0,
        suffix: str = "",
        size: int = 0,
    ) -> None:
        self._fs = fs
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self.created_ms = created_ms
        self.roll_jitter_ms = roll_jitter_ms
        self._suffix = suffix
        self.size = size
        self.bytes_since_index_entry = 0
        self._file: File | None = None
        # None means not known yet: read from the files on demand.
        self._first_timestamp: int | None = None
        self._max_timestamp: TimestampOffset | None = None
        # Position by offset, where a read ended and the next one is likely to begin.
        self._bookmarks: dict[int, int] = {}
        # What was on disk before this start is checked once before it is served: the range that
        # was. None: everything was, or was written since.
        self._checked: tuple[int, int] | None = None
        # Damaged ranges of the file; what lies beyond them is still served.
        self.holes: tuple[tuple[int, int], ...] = ()
        # Of a log that was never compacted: each batch begins where the one before it ends.
        self.is_gapless = False
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(fs, self.path(Kind.INDEX), base_offset, index_bytes)
        self.time_index = TimeIndex(fs, self.path(Kind.TIME_INDEX), base_offset, index_bytes)
        self.txn_index = TxnIndex(fs, self.path(Kind.TXN_INDEX), base_offset)

    def path(self, kind: Kind) -> str:
        return join(self.directory, file_name(self.base_offset, kind, self._suffix))

    def create(self) -> None:
        """Makes the empty log file; the indexes come with their first entry or at sealing."""
        self._file = self._fs.open(self.path(Kind.LOG), create=True)
        self._file.truncate(self.config.segment_bytes if self.config.preallocate else 0)
        self.size = 0
        self._first_timestamp = None
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.base_offset)

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._fs.open(self.path(Kind.LOG))
        return self._file

    # -- what is in it ------------------------------------------------------------------------

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp so far and the last offset of the first batch that carries it."""
        if self._max_timestamp is None:
            try:
                entry = self.time_index.last_entry()
                self._check_time_entry(*entry)
                self._max_timestamp = TimestampOffset(*entry)
            except CorruptFile as error:
                self._max_timestamp = self._mended_max_timestamp(error)
        return self._max_timestamp

    def _mended_max_timestamp(self, error: CorruptFile) -> TimestampOffset:
        """Asked in the middle of an append, which must not fail for an index's sake."""
        _LOG.warning("indexes rebuilt reason=%s", error)
        if self.holes or self.mend():
            # Damage is for the next reader to report.
            best = TimestampOffset(NO_TIMESTAMP, self.base_offset)
            for header in self.headers():
                if header.max_timestamp > best.timestamp:
                    best = TimestampOffset(header.max_timestamp, header.last_offset)
            return best
        assert self._max_timestamp is not None
        return self._max_timestamp

    def _check_time_entry(self, timestamp: int, offset: int) -> None:
        """Retention goes by it: a wrong entry would delete what is young."""
        if timestamp < 0:
            return
        try:
            position = self._indexed_position(offset)
            header = next(
                header for _, header in self._scan(position) if header.last_offset >= offset
            )
        except (StopIteration, CorruptRecord):
            header = None
        if header is None or header.base_offset > offset or header.max_timestamp != timestamp:
            reason = f"entry (timestamp {timestamp}, offset {offset}) is not what the log says"
            raise CorruptFile(self.time_index.path, 0, reason)

    @property
    def largest_timestamp(self) -> int:
        """What retention by time goes by: record time, or the file's where records have none."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self._fs.mtime_ms(self.path(Kind.LOG))

    @property
    def first_timestamp(self) -> int | None:
        """Max timestamp of the first batch, the base for rolling by time; None when empty."""
        if self._first_timestamp is None and self.size > 0:
            for _, header in self._scan(0):
                self._first_timestamp = header.max_timestamp
                break
        return self._first_timestamp

    def next_offset(self) -> int:
        """One past the last offset inside, read from the tail; the base where it is empty."""
        last_offset = self.base_offset - 1
        position = self._indexed_position(self.offset_index.last_offset)
        for _, header in self._scan(position) if self.size else ():
            last_offset = header.last_offset
        return last_offset + 1

    def _indexed_position(self, offset: int) -> int:
        """Where to look for an offset. CorruptFile names the index if it leads astray."""
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
            raise CorruptFile(self.offset_index.path, 0, f"{reason}leads to no batch") from error
        if header.base_offset > entry.offset:
            reason += f"leads to a batch that begins at offset {header.base_offset}"
            raise CorruptFile(self.offset_index.path, 0, reason)
        return entry.position

    def index_sizes(self) -> list[int]:
        """Of the files of offset index, time index and transaction index."""
        return [each.file_bytes() for each in (self.offset_index, self.time_index, self.txn_index)]

    def header_at(self, position: int) -> BatchHeader:
        return read_header(self.file.pread(HEADER_SIZE, position))

    def headers(self) -> Iterator[BatchHeader]:
        """Of every batch."""
        return (header for _, header in self._scan(0))

    def _scan(self, start: int) -> Iterator[tuple[int, BatchHeader]]:
        """Headers from `start` to the end, without the holes. CorruptFile where a batch is not what
        follows the one before it: `size` counts whole batches."""
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

    # -- append -------------------------------------------------------------------------------

    def fits(self, last_offset: int) -> bool:
        """Whether an offset can be written relative to this base in 31 bits."""
        return 0 <= last_offset - self.base_offset <= INT32_MAX

    def append(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Writes whole batches at the end, then accounts for them; nothing changes on failure."""
        if not self.fits(headers[-1].last_offset):
            raise InvariantViolation(
                f"offset {headers[-1].last_offset} does not fit segment {self.base_offset}"
            )
        file = self._file or self.file
        try:
            file.pwrite(data, self.size)
        except OSError as error:
            # A torn batch must not lie where the next one ends: a later recovery could take its
            # second half for a batch. If even this fails the caller gives up on the directory.
            file.truncate(self.size)
            raise LogStorageError(
                f"append to {self.path(Kind.LOG)} at {self.size}: {error}"
            ) from error
        self.account(headers)

    def account(self, headers: Iterable[BatchHeader]) -> None:
        """Takes note of batches that now lie at the end of the file, one by one."""
        interval_bytes = self.config.index_interval_bytes
        highest = self._max_timestamp or self.max_timestamp
        for header in headers:
            timestamp = header.max_timestamp
            last_offset = header.base_offset + header.last_offset_delta
            if self.size == 0:
                self._first_timestamp = timestamp
            if timestamp > highest.timestamp:
                highest = self._max_timestamp = TimestampOffset(timestamp, last_offset)
            if self.bytes_since_index_entry > interval_bytes and not self.is_full:
                self.offset_index.append(last_offset, self.size)
                self.time_index.maybe_append(highest.timestamp, highest.offset)
                self.bytes_since_index_entry = 0
            size = LOG_OVERHEAD + header.batch_length
            self.size += size
            self.bytes_since_index_entry += size

    @property
    def is_full(self) -> bool:
        """An index has no slot left: the next append rolls, and until then entries are left out.

        One append, or a recovery under a smaller segment.index.bytes, may bring more batches than
        there are slots; a sparse index that lacks some entries is slower, not wrong."""
        return self.offset_index.is_full or self.time_index.is_full

    def add_aborted_txn(self, entry: AbortedTxnEntry) -> None:
        self.txn_index.append(entry)

    # -- find ---------------------------------------------------------------------------------

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
            # Nearly always for who reads at the log's end: the file need not be looked at.
            end = end_position
        else:
            end, next_offset = self._last_batch_end(position, limit, min_one_batch)
            if next_offset is not None:
                self.bookmark(next_offset, end)
        if self._checked is not None:
            self._check(position, end, start_offset)
        return FileSlice(self.file, position, end - position)

    def doubt(self) -> None:
        """It was on disk before this start, and nobody has looked at its batches since."""
        self._checked = (0, 0)

    def _check(self, start: int, end: int, start_offset: int) -> None:
        """Once before it is served: afterwards the page cache is believed. A reader who goes on
        where it stopped makes the checked range grow; who jumps about has it begin anew."""
        assert self._checked is not None
        first, last = self._checked
        if first <= start and end <= last:
            return
        joins = first <= start <= last
        position = first_unchecked = last if joins else start
        # Offsets lie outside of the checksum; but they rise, and stay within reach.
        due = start_offset if first_unchecked == start else INT64_MAX
        is_exact = False
        try:
            for at, header, batch in scan_batches(self.file, first_unchecked, end):
                position = at
                verify_crc(batch, 0, header)
                is_due = header.base_offset <= due if not is_exact else header.base_offset == due
                is_late = header.base_offset < due and is_exact
                if is_late or (self.is_gapless and not is_due) or not self.fits(header.last_offset):
                    raise CorruptRecord(f"offset {header.base_offset} where {due} is due")
                due, is_exact = header.next_offset, True
        except KafkaError as error:
            raise CorruptFile(self.path(Kind.LOG), position, str(error)) from error
        self._checked = (first if joins else start, end)
        if self._checked[0] == 0 and end == self.size:
            self._checked = None

    def bookmark(self, offset: int, position: int) -> None:
        """Remembers that the first batch that ends at or after `offset` begins at `position`, or
        will, where that is the end. It holds until the segment is cut.

        Kept when it was used: others may read the same log not far behind."""
        if self._bookmarks.pop(offset, None) is None and len(self._bookmarks) >= MAX_BOOKMARKS:
            del self._bookmarks[next(iter(self._bookmarks))]
        self._bookmarks[offset] = position

    def _last_batch_end(
        self, position: int, limit: int, min_one_batch: bool
    ) -> tuple[int, int | None]:
        """The last batch boundary up to `limit`, and an offset to be found there.

        With `min_one_batch` never before the end of the first batch, wherever the limit lies."""
        start = position
        if limit - position > UNINDEXED_BYTES:
            # What the index names is the start of a batch, so those before it fit.
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

    def _floor_position(self, limit: int) -> int:
        position = self.offset_index.floor_position(limit)
        if not 0 <= position <= self.size:
            reason = f"position {position} lies outside of {self.size} bytes of log"
            raise CorruptFile(self.offset_index.path, 0, reason)
        return position

    def find_by_timestamp(self, timestamp: int, start_offset: int) -> TimestampOffset | None:
        """The first record at or after `start_offset` whose timestamp is at least `timestamp`."""
        entry = self.time_index.lookup(timestamp)
        self._check_time_entry(*entry)
        position = self._indexed_position(max(entry.offset, start_offset))
        for at, header in self._scan(position):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            for record in iter_records(self.file.pread(header.size, at)):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp, record.offset)
        return None

    # -- shrink, rebuild ----------------------------------------------------------------------

    def truncate_to(self, offset: int, *, now_ms: int) -> int:
        """Drops every batch that holds or follows `offset`; returns the number of bytes dropped."""
        found = self.find(offset) if self.size else None
        keep = found.position if found is not None else self.size
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        dropped = self.size - keep
        self._cut(keep, now_ms=now_ms)
        return dropped

    def _cut(self, size: int, *, now_ms: int) -> None:
        self.file.truncate(size)
        self.size = size
        self._bookmarks.clear()
        self.bytes_since_index_entry = 0
        self._max_timestamp = None
        self._first_timestamp = None
        if size == 0:
            self.created_ms = now_ms
        else:
            self._reload_max_timestamp()

    def _reload_max_timestamp(self) -> None:
        """Batches after the last time index entry may carry a larger timestamp than it does."""
        best = TimestampOffset(*self.time_index.last_entry())
        position = self._indexed_position(self.offset_index.last_offset)
        for _, header in self._scan(position):
            if header.max_timestamp > best.timestamp:
                best = TimestampOffset(header.max_timestamp, header.last_offset)
        self._max_timestamp = best

    def reset_indexes(self) -> None:
        self.offset_index.truncate_all()
        self.time_index.truncate_all()
        self.txn_index.reset()

    def recover(
        self,
        on_batch: OnBatch,
        *,
        now_ms: int,
        on_bad: OnBad | None = None,
        is_gapless: bool = False,
    ) -> int:
        """Rebuilds the indexes from the log file and cuts it at the first bad batch.

        `on_batch` sees good batches in order, see `segment_rebuild.OnBatch` (producer state,
        epochs, aborted transactions are the caller's). `on_bad` is told before anything is cut and
        may raise instead. Returns the number of bytes cut off."""
        file_size = self.file.size()
        self.reset_indexes()
        self._bookmarks.clear()
        room = IndexRoom(
            self.config.index_interval_bytes,
            self.offset_index.max_entries,
            self.time_index.max_entries - 1,
        )
        found = SegmentRebuild(self.base_offset, room, on_batch, is_gapless=is_gapless)
        # Whether what follows a bad batch may go is for `on_bad` to say.
        with suppress(CorruptRecord):
            found.read(self.file, file_size)
        if found.size < file_size and on_bad is not None:
            on_bad(found.size, file_size, found.next_offset)
        self.size = found.size
        self._checked, self.holes = None, ()
        self.bytes_since_index_entry = found.bytes_since_index_entry
        self._first_timestamp = found.first_timestamp
        self._max_timestamp = TimestampOffset(found.max_timestamp, found.offset_of_max_timestamp)
        self.offset_index.extend(found.offset_keys, found.offset_positions)
        self.time_index.extend(found.time_keys, found.time_offsets)
        if self.size < file_size:
            self.file.truncate(self.size)
        if self.size == 0:
            self.created_ms = now_ms
        self.time_index.maybe_append(*self.max_timestamp, skip_full_check=True)
        self.offset_index.flush()
        self.time_index.flush()
        return file_size - self.size

    def mend(self) -> tuple[tuple[int, int], ...]:
        """Something led astray. If the log file is good, its indexes are made anew; else its bad
        ranges are `holes` from now on, which are returned, and it is searched without an index."""
        room = IndexRoom(
            self.config.index_interval_bytes,
            self.offset_index.max_entries,
            self.time_index.max_entries - 1,
        )
        found = SegmentRebuild(self.base_offset, room, lambda header, batch: None)
        with suppress(CorruptRecord):
            found.read(self.file, self.size)
        self._bookmarks.clear()
        self.offset_index.truncate_all()
        if found.size == self.size:
            self._checked = None
            self.time_index.truncate_all()
            self._max_timestamp = TimestampOffset(
                found.max_timestamp, found.offset_of_max_timestamp
            )
            self.offset_index.extend(found.offset_keys, found.offset_positions)
            self.time_index.extend(found.time_keys, found.time_offsets)
            self._write_last_time_entry()
            self.offset_index.flush()
            self.time_index.flush()
            return ()
        self.holes = tuple(bad_spans(self.file, self.size, self.base_offset))
        return self.holes

    # -- life cycle ---------------------------------------------------------------------------

    def seal(self) -> None:
        """No more appends: the last time index entry, indexes written, the log trimmed."""
        self._write_last_time_entry()
        self.offset_index.seal()
        self.time_index.seal()
        if self.config.preallocate:
            self.file.truncate(self.size)

    def _write_last_time_entry(self) -> None:
        if self.max_timestamp.timestamp >= 0:
            self.time_index.maybe_append(*self.max_timestamp, skip_full_check=True)

    def files_to_sync(self) -> list[Callable[[], None]]:
        """The fsync calls that make this segment durable, in order; entries are written first."""
        self.offset_index.flush()
        self.time_index.flush()
        return [
            self.file.fsync,
            self.offset_index.fsync,
            self.time_index.fsync,
            self.txn_index.fsync,
        ]

    def flush(self) -> None:
        for sync in self.files_to_sync():
            sync()

    def forget(self) -> None:
        """Lets go of the file; a slice somebody still holds keeps it open for them."""
        self._file = None

    def change_suffix(self, suffix: str) -> None:
        """Renames the files that exist, log first: its name is what the loader trusts."""
        old_log = self.path(Kind.LOG)
        self._suffix = suffix
        self._fs.rename(old_log, self.path(Kind.LOG))
        self.offset_index.rename(self.path(Kind.INDEX))
        self.time_index.rename(self.path(Kind.TIME_INDEX))
        self.txn_index.rename(self.path(Kind.TXN_INDEX))

    def paths(self) -> list[str]:
        kinds = (Kind.LOG, Kind.INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)
        return [path for kind in kinds if self._fs.exists(path := self.path(kind))]

    def unlink(self) -> None:
        # The log file last: an index alone says that a log file is missing.
        for path in reversed(self.paths()):
            self._fs.unlink(path)
        self.forget()

    def check_invariants(self) -> None:
        assert self.size >= 0
        assert self._file is None or self._file.size() >= self.size or self.config.preallocate
        assert self.offset_index.size_bytes % 8 == 0
        assert self.size == 0 or self.size >= HEADER_SIZE
        assert len(self._bookmarks) <= MAX_BOOKMARKS
        assert all(position <= self.size for position in self._bookmarks.values())
