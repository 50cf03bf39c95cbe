"""Searches a log file behind a bad place for good batches. Grade D: reads a `File`.

This tells a torn tail, which a crash leaves and which may be cut, from damage: nothing whole
follows a torn tail. Used only after something was found to be wrong.
"""

import re
from struct import Struct
from typing import Final, NamedTuple

from ledgerstone.fs import File
from ledgerstone.records.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
)
from ledgerstone.records.crc import crc32c
from ledgerstone.storage.batch_scan import WINDOW_BYTES
from ledgerstone.types import INT32_MAX, INT64_MAX

# From a batch header: base offset, length, magic, CRC, last offset delta.
_PLACE: Final = Struct(">qi4xbI2xi")
_HIGH_HALF: Final = Struct(">i")
# Sectors that never reached the disk read as zeros. Our batches end in one or two zero bytes.
_ZEROS: Final = bytes(16)


Span = tuple[int, int]


class GoodBatch(NamedTuple):
    position: int
    base_offset: int
    size: int
    last_offset: int


def next_good_batch(file: File, start: int, end: int, *, from_offset: int) -> GoodBatch | None:
    """The first whole batch in [start, end), wherever it begins, whose checksum holds and whose
    offset is at least `from_offset` and within the reach of a segment."""
    highest = min(from_offset + INT32_MAX, INT64_MAX)
    if from_offset > highest:
        # The last offset that there is was taken.
        return None
    halves = {_HIGH_HALF.pack(from_offset >> 32), _HIGH_HALF.pack(highest >> 32)}
    prefix = b"|".join(re.escape(half) for half in sorted(halves))
    # A lookahead, so that candidates may overlap. The magic byte is the 17th.
    candidate = re.compile(b"(?=(?:%s)[\\s\\S]{12}\\x02)" % prefix)
    at = start
    while at + HEADER_SIZE <= end:
        window = file.pread(min(WINDOW_BYTES, end - at), at)
        for match in candidate.finditer(window):
            found = _good_at(file, at + match.start(), end)
            if found is not None and from_offset <= found.base_offset <= highest:
                return found
        if len(window) < WINDOW_BYTES:
            return None
        at += WINDOW_BYTES - LOG_OVERHEAD - HEADER_SIZE
    return None


def _good_at(file: File, position: int, end: int) -> GoodBatch | None:
    prefix = file.pread(HEADER_SIZE, position)
    if len(prefix) < HEADER_SIZE:
        return None
    base_offset, length, magic, crc, delta = _PLACE.unpack_from(prefix)
    size = LOG_OVERHEAD + length
    if magic != MAGIC or length < MIN_BATCH_LENGTH or delta < 0 or position + size > end:
        return None
    batch = memoryview(file.pread(size, position))
    if crc32c(batch[ATTRIBUTES_AT:]) != crc:
        return None
    return GoodBatch(position, base_offset, size, base_offset + delta)


def looks_torn(file: File, position: int, end: int) -> bool:
    """Whether the tail [position, end) looks like an interrupted write: less than a batch, or zeros
    for missing sectors. Anything else was written whole and has changed since."""
    tail = file.pread(min(end - position, WINDOW_BYTES), position)
    if len(tail) < HEADER_SIZE or tail.endswith(_ZEROS):
        return True
    _, length, magic, _, _ = _PLACE.unpack_from(tail)
    return bool(
        magic == MAGIC and length >= MIN_BATCH_LENGTH and LOG_OVERHEAD + length > end - position
    )


def good_spans(file: File, end: int, base_offset: int) -> list[Span]:
    """The ranges of batches with valid checksums and rising offsets, in order."""
    spans: list[Span] = []
    position, offset = 0, base_offset
    while (found := next_good_batch(file, position, end, from_offset=offset)) is not None:
        stop = found.position + found.size
        if spans and spans[-1][1] == found.position:
            spans[-1] = (spans[-1][0], stop)
        else:
            spans.append((found.position, stop))
        position, offset = stop, found.last_offset + 1
    return spans


def between(spans: list[Span], end: int) -> list[Span]:
    edges = [0, *(edge for span in spans for edge in span), end]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return [(start, stop) for start, stop in gaps if start < stop]


def bad_spans(file: File, end: int, base_offset: int) -> list[Span]:
    """The rest of [0, end): everything but the good batches."""
    return between(good_spans(file, end, base_offset), end)
