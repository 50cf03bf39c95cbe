"""One segment: a log file and its three indexes. Grade D.

Owns the bytes of a half-open offset range starting at `base_offset`. Appends, truncates, rebuilds
and mends itself; `segment_reader` finds and reads, `segment_files` names and syncs. The log decides
when to roll and what to delete.

The rules for index entries are in README.md, "When an entry is made".
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from ledgerstone.errors import CorruptFile, CorruptRecord, InvariantViolation, LogStorageError
from ledgerstone.fs import Filesystem
from ledgerstone.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from ledgerstone.storage.damage_search import bad_spans
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.segment_reader import (
    MAX_BOOKMARKS,
    SegmentReader,
)
from ledgerstone.storage.segment_rebuild import IndexRoom, OnBatch, SegmentRebuild
from ledgerstone.storage.time_index import TimestampOffset
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import INT32_MAX, NO_TIMESTAMP, Buffer

_LOG: Final = logging.getLogger(__name__)

# Called where a log file stops being good: position, file size, expected offset.
OnBad = Callable[[int, int, int], None]


class Segment(SegmentReader):
    __slots__ = (
        "_first_timestamp",
        "_max_timestamp",
        "bytes_since_index_entry",
        "created_ms",
        "roll_jitter_ms",
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
        super().__init__(fs, directory, base_offset, config, suffix=suffix, size=size)
        self.created_ms = created_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.bytes_since_index_entry = 0
        # None: unknown yet, read from the files on demand.
        self._first_timestamp: int | None = None
        self._max_timestamp: TimestampOffset | None = None

    def create(self) -> None:
        """Makes the empty log file; the indexes come with their first entry or at sealing."""
        self._file = self._fs.open(self.path(Kind.LOG), create=True)
        self._file.truncate(self.config.segment_bytes if self.config.preallocate else 0)
        self.size = 0
        self._first_timestamp = None
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def seal(self) -> None:
        """No more appends: the last time index entry, indexes written, the log trimmed."""
        self._write_last_time_entry()
        self.offset_index.seal()
        self.time_index.seal()
        if self.config.preallocate:
            self.file.truncate(self.size)

    # -- timestamps ---------------------------------------------------------------------------

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
        """Called during an append, which must not fail because of an index."""
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

    def _write_last_time_entry(self) -> None:
        if self.max_timestamp.timestamp >= 0:
            self.time_index.maybe_append(*self.max_timestamp, skip_full_check=True)

    @property
    def largest_timestamp(self) -> int:
        """The time for retention: record time, or the file's if records have none."""
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
            # Remove the torn batch: a later recovery could take its second half for a batch. If
            # even this fails, the caller gives up on the directory.
            file.truncate(self.size)
            raise LogStorageError(
                f"append to {self.path(Kind.LOG)} at {self.size}: {error}"
            ) from error
        self.account(headers)

    def account(self, headers: Iterable[BatchHeader]) -> None:
        """Accounts for batches now at the end of the file, one by one."""
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
        """An index has no slot left: the next append rolls. Until then entries are skipped.

        One append, or a recovery under a smaller segment.index.bytes, may bring more batches than
        there are slots. A sparse index with missing entries is slower, not wrong."""
        return self.offset_index.is_full or self.time_index.is_full

    def add_aborted_txn(self, entry: AbortedTxnEntry) -> None:
        self.txn_index.append(entry)

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

    def recover(
        self,
        on_batch: OnBatch,
        *,
        now_ms: int,
        on_bad: OnBad | None = None,
        is_gapless: bool = False,
        aborted_txns: Sequence[AbortedTxnEntry] = (),
    ) -> int:
        """Rebuilds the indexes from the log file and cuts it at the first bad batch.

        `on_batch` sees good batches in order, see `segment_rebuild.OnBatch`: the caller keeps
        producer state and epochs, and adds to `aborted_txns`. `on_bad` is called before anything is
        changed and may raise instead. Returns the number of bytes cut off."""
        file_size = self.file.size()
        found = SegmentRebuild(
            self.base_offset, self._index_room(), on_batch, is_gapless=is_gapless
        )
        # `on_bad` decides whether the bytes after a bad batch may be cut.
        with suppress(CorruptRecord):
            found.read(self.file, file_size)
        if found.size < file_size and on_bad is not None:
            on_bad(found.size, file_size, found.next_offset)
        self.reset_indexes()
        # Before the others. Crash here: the time index is empty, and the next start rebuilds all
        # three. Nothing would tell it that an aborted transaction is missing.
        for each in aborted_txns:
            self.add_aborted_txn(each)
        self._bookmarks.clear()
        self.size = found.size
        self._first_read, self.holes = None, ()
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
        """Called when a read went wrong. If the log file is good, rebuilds its indexes. Otherwise
        its bad ranges become `holes`, which are returned, and searches do without an index."""
        found = SegmentRebuild(self.base_offset, self._index_room(), lambda header, batch: None)
        with suppress(CorruptRecord):
            found.read(self.file, self.size)
        self._bookmarks.clear()
        self.offset_index.truncate_all()
        if found.size == self.size:
            self._first_read = None
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

    def _index_room(self) -> IndexRoom:
        return IndexRoom(
            self.config.index_interval_bytes,
            self.offset_index.max_entries,
            self.time_index.max_entries - 1,
        )

    def check_invariants(self) -> None:
        assert self.size >= 0
        assert self._file is None or self._file.size() >= self.size or self.config.preallocate
        assert self.offset_index.size_bytes % 8 == 0
        assert self.size == 0 or self.size >= HEADER_SIZE
        assert len(self._bookmarks) <= MAX_BOOKMARKS
        assert all(position <= self.size for position in self._bookmarks.values())
