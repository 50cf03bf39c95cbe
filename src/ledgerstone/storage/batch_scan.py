"""Walking the batches of a log file, headers only or whole. Grade D: reads through a `File`.

Both walks stop silently at a batch that does not fit before `end`: an incomplete tail is how a
crash looks, not an error. Bytes that cannot be a batch header raise CorruptRecord.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NoReturn
from zlib import crc32

from ledgerstone.errors import CorruptRecord, UnsupportedForMessageFormat
from ledgerstone.fs import File
from ledgerstone.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    iter_headers,
    read_header,
)

# Index entries lie index.interval.bytes (4 KiB) apart, so most searches end in their first read.
_HEADER_CHUNK_BYTES: Final = 8192
WINDOW_BYTES: Final = 1 << 20
# Magic 0 and 1: offset, size, then the CRC-32 of everything after it.
_OLD_PREFIX: Final = Struct(">qiI")
_OLD_CRC_AT: Final = 12
# From a batch header: base offset, length, magic, last offset delta.
_PLACE: Final = Struct(">qi4xb6xi")


def scan_headers(file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch in [start, end)."""
    chunk = b""
    chunk_start = position = start
    chunk_bytes = _HEADER_CHUNK_BYTES
    while position + HEADER_SIZE <= end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            if at > _HEADER_CHUNK_BYTES:
                # Large batches: a chunk would hold a single header and nothing else of use.
                chunk_bytes = HEADER_SIZE
            chunk = file.pread(min(chunk_bytes, end - position), position)
            chunk_start, at = position, 0
            if len(chunk) < HEADER_SIZE:
                return
        try:
            header = read_header(chunk, at)
        except UnsupportedForMessageFormat as error:
            refuse_old_format(file, position, end, error)
        size = LOG_OVERHEAD + header.batch_length
        if position + size > end:
            return
        yield position, header
        position += size


def last_offset_in(file: File, end: int) -> int | None:
    """The last offset before `end`, from headers alone; None if there is no whole batch.

    Finds what `scan_headers` finds, without an object per batch: an unclean start runs this over
    whole segments. Stops at bytes that cannot be a header; callers judge those."""
    last_offset: int | None = None
    chunk = b""
    chunk_start = position = 0
    chunk_bytes = _HEADER_CHUNK_BYTES
    while position + HEADER_SIZE <= end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            if at > _HEADER_CHUNK_BYTES:
                chunk_bytes = HEADER_SIZE
            chunk = file.pread(min(chunk_bytes, end - position), position)
            chunk_start, at = position, 0
            if len(chunk) < HEADER_SIZE:
                break
        base_offset, batch_length, magic, delta = _PLACE.unpack_from(chunk, at)
        position += LOG_OVERHEAD + batch_length
        if magic != MAGIC or batch_length < MIN_BATCH_LENGTH or position > end:
            break
        last_offset = base_offset + delta
    return last_offset


def scan_batches(file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each whole batch in [start, end).

    The bytes are a view of a window that the next batch may overwrite."""
    window = bytearray(min(WINDOW_BYTES, max(end - start, 0)))
    position = start
    while position + HEADER_SIZE <= end:
        wanted = min(len(window), end - position)
        view = memoryview(window)[:wanted]
        filled = file.pread_into(view, position)
        consumed = 0
        try:
            for at, header in iter_headers(view, 0, filled):
                yield position + at, header, view[at : at + header.size]
                consumed = at + header.size
        except UnsupportedForMessageFormat as error:
            refuse_old_format(file, position + consumed, end, error)
        if consumed == 0:
            if filled < HEADER_SIZE:
                return
            size = read_header(view[:filled]).size
            if position + size > end or filled < wanted:
                return
            # One batch larger than the window; its size was checked against the file.
            view.release()
            window = bytearray(size)
            continue
        position += consumed


def refuse_old_format(
    file: File, position: int, end: int, error: UnsupportedForMessageFormat
) -> NoReturn:
    """Refuses data of an old format as such; debris that only resembles it is a bad batch.

    The difference matters to recovery, which cuts off bad batches and must not cut off data."""
    _, size, stored_crc = _OLD_PREFIX.unpack(file.pread(_OLD_PREFIX.size, position))
    data_end = position + _OLD_CRC_AT + size
    found_crc = 0
    if data_end <= end:
        for at in range(position + _OLD_PREFIX.size, data_end, WINDOW_BYTES):
            found_crc = crc32(file.pread(min(WINDOW_BYTES, data_end - at), at), found_crc)
        if found_crc == stored_crc:
            raise error
    raise CorruptRecord(f"{error}, and its checksum does not match") from error
