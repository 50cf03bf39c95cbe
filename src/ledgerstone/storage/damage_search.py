"""Searches a log file behind a bad place for good batches. Grade D: reads a `File`.

This tells a torn tail, which a crash leaves and which may be cut, from damage: nothing whole
follows a torn tail. Used only after something was found to be wrong.

Bytes of records may look like headers, each of which claims the whole rest of the file. So the
checksum of a long range is not taken from its bytes, but from those of two beginnings of the file:
what a candidate costs does not depend on what it claims.
"""

import re
from array import array
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


# A long range is one of more bytes than this; beginnings of the file are known this far apart.
_STEP_BYTES: Final = 4096
# CRC-32C, its bits reversed.
_POLYNOMIAL: Final = 0x82F63B78
_ONE: Final = 1 << 31

Span = tuple[int, int]


class GoodBatch(NamedTuple):
    position: int
    base_offset: int
    size: int
    last_offset: int


def _times(one: int, other: int) -> int:
    """The product of two polynomials of bits, modulo that of CRC-32C."""
    product, bit = 0, _ONE
    while one:
        if one & bit:
            product ^= other
            one ^= bit
        bit >>= 1
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product


def _powers() -> tuple[int, ...]:
    """What 1, 2, 4, 8 … bytes of zeros do to a checksum before them."""
    power, powers = 1 << 30, []
    for doubled in range(3 + 32):
        if doubled >= 3:
            powers.append(power)
        power = _times(power, power)
    return tuple(powers)


class _Checksums:
    """Checksums of ranges of a file in [start, end)."""

    def __init__(self, file: File, start: int, end: int) -> None:
        self._file, self._start, self._end = file, start, end
        # Of [start, start + n * _STEP_BYTES), as far as somebody has asked.
        self._beginnings = array("I", [0])
        self._powers: tuple[int, ...] = ()

    def of(self, start: int, stop: int) -> int:
        size = stop - start
        if size <= _STEP_BYTES:
            return crc32c(self._file.pread(size, start))
        shifted = self._beginning(start)
        self._powers = self._powers or _powers()
        for power in self._powers:
            if size & 1:
                shifted = _times(power, shifted)
            size >>= 1
        return self._beginning(stop) ^ shifted

    def _beginning(self, stop: int) -> int:
        """Of [start, stop)."""
        steps, rest = divmod(stop - self._start, _STEP_BYTES)
        known = self._beginnings
        while len(known) <= steps:
            at = self._start + (len(known) - 1) * _STEP_BYTES
            window = memoryview(self._file.pread(min(WINDOW_BYTES, self._end - at), at))
            for low in range(0, max(len(window) - _STEP_BYTES, 0) + 1, _STEP_BYTES):
                known.append(crc32c(window[low : low + _STEP_BYTES], known[-1]))
        at = self._start + steps * _STEP_BYTES
        return crc32c(self._file.pread(rest, at), known[steps])


def next_good_batch(file: File, start: int, end: int, *, from_offset: int) -> GoodBatch | None:
    """The first whole batch in [start, end), wherever it begins, whose checksum holds and whose
    offset is at least `from_offset` and within the reach of a segment."""
    return _next_good(file, start, end, from_offset, _Checksums(file, start, end))


def _next_good(
    file: File, start: int, end: int, from_offset: int, checksums: _Checksums
) -> GoodBatch | None:
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
            found = _claimed_at(file, at + match.start(), end)
            if found is None or not from_offset <= found[0].base_offset <= highest:
                continue
            claimed, crc = found
            stop = claimed.position + claimed.size
            if checksums.of(claimed.position + ATTRIBUTES_AT, stop) == crc:
                return claimed
        if len(window) < WINDOW_BYTES:
            return None
        at += WINDOW_BYTES - LOG_OVERHEAD - HEADER_SIZE
    return None


def _claimed_at(file: File, position: int, end: int) -> tuple[GoodBatch, int] | None:
    """What a header says, and its checksum; None where no batch in the file can have it."""
    prefix = file.pread(HEADER_SIZE, position)
    if len(prefix) < HEADER_SIZE:
        return None
    base_offset, length, magic, crc, delta = _PLACE.unpack_from(prefix)
    size = LOG_OVERHEAD + length
    if magic != MAGIC or length < MIN_BATCH_LENGTH or delta < 0 or position + size > end:
        return None
    return GoodBatch(position, base_offset, size, base_offset + delta), crc


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
    checksums = _Checksums(file, 0, end)
    while (found := _next_good(file, position, end, offset, checksums)) is not None:
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
