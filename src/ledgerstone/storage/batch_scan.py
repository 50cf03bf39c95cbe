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
from ledgerstone.records.batch import HEADER_SIZE, BatchHeader, iter_headers, read_header

# Index entries lie index.interval.bytes (4 KiB) apart, so most searches end in their first read.
_HEADER_CHUNK_BYTES: Final = 8192
_WINDOW_BYTES: Final = 1 << 20
# Of magic 0 and 1: offset, size, then the CRC-32 of everything after it.
_OLD_PREFIX: Final = Struct(">qiI")
_OLD_CRC_AT: Final = 12


def scan_headers(file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch in [start, end)."""
    chunk = b""
    chunk_start = position = start
    while position + HEADER_SIZE <= end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            chunk = file.pread(min(_HEADER_CHUNK_BYTES, end - position), position)
            chunk_start, at = position, 0
            if len(chunk) < HEADER_SIZE:
                return
        try:
            header = read_header(chunk, at)
        except UnsupportedForMessageFormat as error:
            _refuse_old_format(file, position, end, error)
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def scan_batches(file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each whole batch in [start, end).

    The bytes are a view of a window that the next batch may overwrite."""
    window = bytearray(min(_WINDOW_BYTES, max(end - start, 0)))
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
            _refuse_old_format(file, position + consumed, end, error)
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


def _refuse_old_format(
    file: File, position: int, end: int, error: UnsupportedForMessageFormat
) -> NoReturn:
    """Data of an old format is refused as such; debris that only looks like it is a bad batch.

    The difference matters to recovery, which cuts off bad batches and must not cut off data."""
    _, size, stored_crc = _OLD_PREFIX.unpack(file.pread(_OLD_PREFIX.size, position))
    data_end = position + _OLD_CRC_AT + size
    found_crc = 0
    if data_end <= end:
        for at in range(position + _OLD_PREFIX.size, data_end, _WINDOW_BYTES):
            found_crc = crc32(file.pread(min(_WINDOW_BYTES, data_end - at), at), found_crc)
        if found_crc == stored_crc:
            raise error
    raise CorruptRecord(f"{error}, and its checksum says that it is none") from error
