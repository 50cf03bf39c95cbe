"""The entries of an index as facts, and whether they match the log beside it.

Grade D, read-only. The formats are decoded by their owners; docs/dump.md lists the fields of the
facts.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Final, NamedTuple

from ledgerstone.errors import CorruptFile, KafkaError
from ledgerstone.fs import File, Filesystem, join, parent_of
from ledgerstone.records.batch import BatchHeader
from ledgerstone.storage import offset_index, time_index, txn_index
from ledgerstone.storage.batch_scan import scan_headers
from ledgerstone.storage.dump_facts import (
    AbortedTxnFacts,
    FileFact,
    FileFacts,
    FileFormat,
    IndexEntry,
    IndexTotals,
    OffsetIndexEntry,
    Problem,
    TimeIndexEntry,
)
from ledgerstone.storage.filenames import Kind, file_name
from ledgerstone.types import INT64_MAX, NO_OFFSET, NO_TIMESTAMP

_BLOCK_ENTRIES: Final = 8192


class _IndexFormat(NamedTuple):
    entry_bytes: int
    # Path, a block of whole entries, its position in the file, base offset.
    decode: Callable[[str, bytes, int, int], Iterator[IndexEntry]]


def _decode_offsets(path: str, block: bytes, start: int, base: int) -> Iterator[IndexEntry]:
    for slot, (offset, log_position) in enumerate(offset_index.decode_entries(block, base)):
        position = start + slot * offset_index.ENTRY_BYTES
        yield OffsetIndexEntry(
            path=path, position=position, offset=offset, log_position=log_position
        )


def _decode_times(path: str, block: bytes, start: int, base: int) -> Iterator[IndexEntry]:
    for slot, (timestamp, offset) in enumerate(time_index.decode_entries(block, base)):
        position = start + slot * time_index.ENTRY_BYTES
        yield TimeIndexEntry(path=path, position=position, timestamp_ms=timestamp, offset=offset)


def _decode_txns(path: str, block: bytes, start: int, _: int) -> Iterator[IndexEntry]:
    try:
        entries = txn_index.decode_entries(block, path)
    except CorruptFile as error:
        raise CorruptFile(path, start + error.position, error.reason) from error
    for slot, entry in enumerate(entries):
        position = start + slot * txn_index.ENTRY_BYTES
        yield AbortedTxnFacts(path=path, position=position, **entry._asdict())


INDEXES: Final[Mapping[FileFormat, _IndexFormat]] = {
    FileFormat.OFFSET_INDEX: _IndexFormat(offset_index.ENTRY_BYTES, _decode_offsets),
    FileFormat.TIME_INDEX: _IndexFormat(time_index.ENTRY_BYTES, _decode_times),
    FileFormat.TXN_INDEX: _IndexFormat(txn_index.ENTRY_BYTES, _decode_txns),
}


def dump_index(fs: Filesystem, named: FileFacts, *, verify: bool) -> Iterator[FileFact]:
    index = INDEXES[named.format]
    file = fs.open(named.path)
    try:
        whole = named.size_bytes - named.size_bytes % index.entry_bytes
        used = _used_bytes(file, whole, index.entry_bytes)
        yield from _entries(file, named, index, used)
        yield IndexTotals(
            path=named.path,
            entry_count=used // index.entry_bytes,
            zero_tail_bytes=whole - used,
        )
        if whole < named.size_bytes:
            reason = f"length {named.size_bytes} is not a multiple of {index.entry_bytes}"
            yield Problem(path=named.path, position=whole, reason=reason)
        if verify:
            yield from _verify_index(fs, named, _entries(file, named, index, used))
    finally:
        file.close()


def _entries(file: File, named: FileFacts, index: _IndexFormat, end: int) -> Iterator[IndexEntry]:
    step = _BLOCK_ENTRIES * index.entry_bytes
    for start in range(0, end, step):
        block = file.pread(min(step, end - start), start)
        yield from index.decode(named.path, block, start, named.base_offset or 0)


def _used_bytes(file: File, whole: int, entry_bytes: int) -> int:
    """Where the entries end and a preallocated tail of zeros begins."""
    end = whole
    step = _BLOCK_ENTRIES * entry_bytes
    while end:
        start = max(0, end - step)
        filled = len(file.pread(end - start, start).rstrip(b"\0"))
        if filled:
            end = start + -(-filled // entry_bytes) * entry_bytes
            break
        end = start
    # One entry of zeros may be real: a first record at time 0. Two in a row never are.
    return whole if whole - end < 2 * entry_bytes else end


# -- verification ------------------------------------------------------------------------------


class _BatchCursor:
    """Moves forward over the headers of a log; `header` is None once there are no more."""

    __slots__ = ("_headers", "header", "max_timestamp_before", "position")

    def __init__(self, file: File) -> None:
        self._headers = scan_headers(file, 0, file.size())
        self.header: BatchHeader | None = None
        self.position = 0
        self.max_timestamp_before = NO_TIMESTAMP
        self.advance()

    def advance(self) -> None:
        if self.header is not None:
            self.max_timestamp_before = max(self.max_timestamp_before, self.header.max_timestamp)
        try:
            self.position, self.header = next(self._headers, (self.position, None))
        except KafkaError:
            # The dump of the log reports the problem; for the index, the log ends here.
            self.header = None


def _verify_index(
    fs: Filesystem, named: FileFacts, entries: Iterator[IndexEntry]
) -> Iterator[Problem]:
    if named.format is FileFormat.TXN_INDEX:
        yield from _verify_txns(entries, named.base_offset or 0)
        return
    log_name = file_name(named.base_offset or 0, Kind.LOG, named.suffix)
    log_path = join(parent_of(named.path), log_name)
    if not fs.exists(log_path):
        yield Problem(path=named.path, position=0, reason=f"no {log_name} beside it")
        return
    log = fs.open(log_path)
    try:
        verify = _verify_offsets if named.format is FileFormat.OFFSET_INDEX else _verify_times
        yield from verify(entries, _BatchCursor(log))
    finally:
        log.close()


def _verify_offsets(entries: Iterator[IndexEntry], cursor: _BatchCursor) -> Iterator[Problem]:
    previous_offset = NO_OFFSET
    for entry, following in pairwise(chain(entries, (None,))):
        assert isinstance(entry, OffsetIndexEntry)
        if entry.offset <= previous_offset:
            yield _problem(entry, f"offset {entry.offset} follows {previous_offset}")
            continue
        previous_offset = entry.offset
        while cursor.header is not None and cursor.position < entry.log_position:
            cursor.advance()
        if cursor.header is None or cursor.position != entry.log_position:
            yield _problem(entry, f"no batch begins at log position {entry.log_position}")
            continue
        # The offset is the last one of an appended set, and a set may be several batches: those
        # before the position of the next entry.
        end = following.log_position if isinstance(following, OffsetIndexEntry) else INT64_MAX
        is_in_set = True
        while is_in_set and cursor.header is not None and cursor.header.last_offset < entry.offset:
            cursor.advance()
            is_in_set = cursor.position < end
        if not is_in_set or cursor.header is None or cursor.header.last_offset != entry.offset:
            reason = f"no batch from log position {entry.log_position} on ends with offset"
            yield _problem(entry, f"{reason} {entry.offset}")


def _verify_times(entries: Iterator[IndexEntry], cursor: _BatchCursor) -> Iterator[Problem]:
    previous = (NO_TIMESTAMP, NO_OFFSET)
    for entry in entries:
        assert isinstance(entry, TimeIndexEntry)
        if entry.timestamp_ms <= previous[0] or entry.offset < previous[1]:
            found = (entry.timestamp_ms, entry.offset)
            yield _problem(entry, f"timestamp and offset {found} follow {previous}")
            continue
        previous = (entry.timestamp_ms, entry.offset)
        while cursor.header is not None and cursor.header.last_offset < entry.offset:
            cursor.advance()
        header = cursor.header
        if header is None or header.base_offset > entry.offset:
            yield _problem(entry, f"offset {entry.offset} is in no batch of the log")
        elif header.max_timestamp != entry.timestamp_ms:
            reason = f"the batch with offset {entry.offset} has {header.max_timestamp}"
            yield _problem(entry, f"timestamp {entry.timestamp_ms}, but {reason}")
        elif cursor.max_timestamp_before > entry.timestamp_ms:
            reason = f"{cursor.max_timestamp_before} comes before offset {entry.offset}"
            yield _problem(entry, f"timestamp {entry.timestamp_ms}, but {reason}")


def _verify_txns(entries: Iterator[IndexEntry], base_offset: int) -> Iterator[Problem]:
    previous_last = base_offset - 1
    for entry in entries:
        assert isinstance(entry, AbortedTxnFacts)
        if entry.last_offset <= previous_last:
            yield _problem(entry, f"last offset {entry.last_offset} follows {previous_last}")
        elif entry.first_offset > entry.last_offset:
            reason = f"first offset {entry.first_offset} is past last offset {entry.last_offset}"
            yield _problem(entry, reason)
        previous_last = max(previous_last, entry.last_offset)


def _problem(entry: IndexEntry, reason: str) -> Problem:
    return Problem(path=entry.path, position=entry.position, reason=reason)
