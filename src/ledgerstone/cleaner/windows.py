"""A sealed segment read window by window, every batch checked before anybody believes it. Grade D.

A window is about 2 MiB of whole batches; a batch larger than that gets a window of its own size,
which the bytes left in the file bound. A batch is checked by structure, by CRC, and by its offsets,
which lie outside the CRC: a pass that trusted a damaged batch would drop what it should keep, and
would give what it rewrites a CRC that hides the damage.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from ledgerstone.cleaner.plan import SourceSegment
from ledgerstone.errors import CorruptFile, CorruptRecord, KafkaError, MessageTooLarge
from ledgerstone.fs import File
from ledgerstone.records.batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_END,
    iter_headers,
)
from ledgerstone.records.kernels import Batches, Columns, scan, walk

# Decompressed payloads of one walk; a larger batch is walked alone, up to the plan's limit.
PIECE_LIMIT_BYTES: Final = 8 << 20

_INT32: Final = Struct(">i")


class Window(NamedTuple):
    """Whole batches and where they lie. The bytes are good until the next window is asked for."""

    view: memoryview
    position: int  # in the file
    batches: Batches

    @property
    def size_bytes(self) -> int:
        return self.batches.consumed


class SegmentReader:
    """Reads the sources of one pass through one buffer."""

    __slots__ = ("_before_read", "_decompression_limit", "_window")

    def __init__(
        self, window_bytes: int, *, decompression_limit: int, before_read: Callable[[], None]
    ) -> None:
        # Not bytearray: nobody needs the zeros.
        self._window = np.empty(max(window_bytes, MAGIC_END), np.uint8).data
        self._decompression_limit = decompression_limit
        self._before_read = before_read

    def windows(
        self, file: File, path: str, source: SourceSegment, *, start_position: int = 0
    ) -> Iterator[Window]:
        position = start_position
        previous_last = source.base_offset - 1
        window = self._window
        while position < source.size_bytes:
            self._before_read()
            view = window[: min(len(window), source.size_bytes - position)]
            filled = file.pread_into(view, position)
            if filled < len(view):
                found = position + filled
                raise CorruptFile(path, found, f"the file ends, {source.size_bytes} bytes expected")
            batches = _scan(view, path, position)
            if len(batches) == 0:
                window = _larger_window(view, path, position, source.size_bytes - position)
                continue
            _check_crcs(view, batches, path, position)
            _check_offsets(batches, source, previous_last, path, position)
            previous_last = int(batches.last_offset[-1])
            yield Window(view, position, batches)
            position += batches.consumed
            window = self._window

    def walk(
        self, window: Window, skip: NDArray[np.bool_], path: str, *, min_offset: int | None = None
    ) -> Iterator[tuple[int, Columns]]:
        """The window's records in pieces: (index of the first batch, columns of it and more).

        There is more than one piece only where decompressed payloads take too much memory."""
        first = 0
        while first < len(window.batches):
            columns = self._walk_piece(window, first, skip, path, min_offset)
            yield first, columns
            first += len(columns.batches)

    def _walk_piece(
        self,
        window: Window,
        first: int,
        skip: NDArray[np.bool_],
        path: str,
        min_offset: int | None,
    ) -> Columns:
        start = int(window.batches.position[first])

        def walk_within(limit: int) -> Columns:
            return walk(
                window.view,
                start=start,
                end=window.batches.consumed,
                # The CRCs have been checked, those of skipped batches too.
                verify_crc=False,
                min_offset=min_offset,
                limit=limit,
                skip=skip[first:],
            )

        with corruption_named(path, window.position + start):
            try:
                return walk_within(PIECE_LIMIT_BYTES)
            except MessageTooLarge:
                return walk_within(self._decompression_limit)


@contextmanager
def corruption_named(path: str, position: int) -> Iterator[None]:
    """Bytes that are no batch get the name of their file and the place of their window."""
    try:
        yield
    except KafkaError as error:
        raise CorruptFile(path, position, str(error)) from error


def _scan(view: memoryview, path: str, position: int) -> Batches:
    try:
        return scan(view)
    except CorruptRecord as error:
        raise CorruptFile(path, position + _good_bytes(view), str(error)) from error
    except KafkaError as error:
        error.add_note(f"in {path} at {position + _good_bytes(view)}")
        raise


def _good_bytes(view: memoryview) -> int:
    """Where the first batch that cannot be one begins."""
    end = 0
    try:
        for at, header in iter_headers(view):
            if header.record_count < 0:
                break
            end = at + header.size
    except KafkaError:
        pass
    return end


def _larger_window(view: memoryview, path: str, position: int, left_bytes: int) -> memoryview:
    """Room for the one batch that did not fit, whose size is believed only within the file."""
    if len(view) < MAGIC_END:
        raise CorruptFile(path, position, f"{len(view)} bytes after the last batch")
    size = LOG_OVERHEAD + int(_INT32.unpack_from(view, BATCH_LENGTH_AT)[0])
    if size > left_bytes:
        raise CorruptFile(path, position, f"a batch of {size} bytes, {left_bytes} are left")
    return np.empty(size, np.uint8).data


def _check_crcs(view: memoryview, batches: Batches, path: str, position: int) -> None:
    rows = (batches.position.tolist(), batches.size.tolist(), batches.crc.tolist())
    for at, size, stored in zip(*rows, strict=True):
        found = crc32c(view[at + ATTRIBUTES_AT : at + size])
        if found != stored:
            raise CorruptFile(path, position + at, f"batch crc {found:#010x} != {stored:#010x}")


def _check_offsets(
    batches: Batches, source: SourceSegment, previous_last: int, path: str, position: int
) -> None:
    """Offsets rise from batch to batch and stay inside the segment."""
    before = np.concatenate(([previous_last], batches.last_offset[:-1]))
    bad = (batches.base_offset <= before) | (batches.last_offset < batches.base_offset)
    bad |= batches.last_offset >= source.end_offset
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        raise CorruptFile(
            path,
            position + int(batches.position[index]),
            f"batch with offsets {batches.base_offset[index]} to {batches.last_offset[index]} "
            f"after {before[index]}, the segment ends before {source.end_offset}",
        )
