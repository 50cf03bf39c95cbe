"""Reads a sealed segment window by window, and checks every batch before it is used. Grade D.

A window is about 2 MiB of whole batches; a larger batch gets a window of its own size, bounded by
the bytes left in the file. The checks cover structure, CRC, and offsets, which the CRC does not
cover. A pass that trusted a damaged batch would drop records it should keep, and would give the
rewritten batch a CRC that hides the damage.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledgerstone.cleaner.plan import SourceSegment
from ledgerstone.errors import CorruptFile, CorruptRecord, KafkaError
from ledgerstone.fs import File
from ledgerstone.records.batch import (
    BATCH_LENGTH_AT,
    CODEC_MASK,
    LOG_OVERHEAD,
    MAGIC_END,
    iter_headers,
)
from ledgerstone.records.kernels import (
    Arena,
    BatchChecker,
    Batches,
    Checked,
    Payloads,
    Scratch,
)
from ledgerstone.records.kernels.checking import BatchNotBelieved
from ledgerstone.records.kernels.payloads import check_declared_counts

# Decompressed payloads at a time; a larger batch is opened alone, up to the plan's limit.
PIECE_LIMIT_BYTES: Final = 8 << 20

_INT32: Final = Struct(">i")


class SourceWindow(NamedTuple):
    """Whole batches and their positions. Valid until the next window is read."""

    view: memoryview
    position: int  # in the file
    batches: Batches
    checked: Checked
    size_bytes: int
    last_offset: int


class SourceReader:
    """Reads the sources of one pass through one buffer."""

    __slots__ = (
        *("_actions", "_arena", "_before_read", "_checker", "_decompression_limit"),
        *("_scratch", "_window"),
    )

    def __init__(
        self,
        window_bytes: int,
        scratch: Scratch,
        *,
        decompression_limit: int,
        before_read: Callable[[], None],
    ) -> None:
        # Not bytearray: zeroing it would be wasted work.
        self._window = np.empty(max(window_bytes, MAGIC_END), np.uint8).data
        self._checker = BatchChecker()
        self._actions = np.zeros(0, np.uint8)
        self._scratch = scratch
        self._arena = Arena(PIECE_LIMIT_BYTES)
        self._decompression_limit = decompression_limit
        self._before_read = before_read

    def windows(
        self, file: File, path: str, source: SourceSegment, *, start_position: int = 0
    ) -> Iterator[SourceWindow]:
        position = start_position
        previous_last = source.base_offset - 1
        window = self._window
        while position < source.size_bytes:
            self._before_read()
            left_bytes = source.size_bytes - position
            # Not sliced unnecessarily: a kernel is faster on an array it has seen before.
            view = window if len(window) <= left_bytes else window[:left_bytes]
            filled = file.pread_into(view, position)
            if filled < len(view):
                found = position + filled
                raise CorruptFile(
                    path, found, f"the file ends here, {source.size_bytes} bytes expected"
                )
            checked = self._check(view, path, position, previous_last, source.end_offset)
            batches = checked.batches
            if len(batches) == 0:
                window = _larger_window(view, path, position, left_bytes)
                continue
            previous_last = int(batches.last_offset[-1])
            yield SourceWindow(view, position, batches, checked, batches.consumed, previous_last)
            position += batches.consumed
            window = self._window

    def _check(
        self, view: memoryview, path: str, position: int, previous_last: int, end_offset: int
    ) -> Checked:
        try:
            return self._checker.check(view, previous_last=previous_last, end_offset=end_offset)
        except BatchNotBelieved as error:
            raise CorruptFile(path, position + error.position, str(error)) from error
        except CorruptRecord as error:
            raise CorruptFile(path, position + _good_bytes(view), str(error)) from error
        except KafkaError as error:
            error.add_note(f"in {path} at {position + _good_bytes(view)}")
            raise

    def no_actions(self, window: SourceWindow) -> NDArray[np.uint8]:
        """An array for a window whose batches are undecided: the same one each time, perhaps longer
        than the window has batches."""
        count = len(window.batches)
        if count > len(self._actions):
            self._actions = np.empty(2 * count, np.uint8)
        self._actions[:count] = 0
        return self._actions

    def payloads(
        self, window: SourceWindow, actions: NDArray[np.uint8], path: str
    ) -> Iterator[Payloads]:
        """The window's batches in pieces, except those to be DISCARDed.

        There is more than one piece only if decompressed payloads take too much memory."""
        first, count = 0, len(window.batches)
        while first < count:
            piece = self._open(window, first, actions, path)
            yield piece
            first = piece.end

    def _open(
        self, window: SourceWindow, first: int, actions: NDArray[np.uint8], path: str
    ) -> Payloads:
        try:
            piece = self._arena.open(
                window.view,
                window.batches,
                actions,
                first=first,
                payload_limit=self._decompression_limit,
                has_compressed=bool(window.checked.attributes & CODEC_MASK),
            )
            if window.checked.most_records > self._scratch.room:
                check_declared_counts(piece, actions)
                self._scratch.reserve(window.checked.most_records)
        except KafkaError as error:
            start = window.position + int(window.batches.position[first])
            raise CorruptFile(path, start, str(error)) from error
        return piece


def _good_bytes(view: memoryview) -> int:
    """Where the first invalid batch begins."""
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
    """Room for the one batch that did not fit; its size is bounded by the file."""
    if len(view) < MAGIC_END:
        raise CorruptFile(path, position, f"{len(view)} bytes after the last batch")
    size = LOG_OVERHEAD + int(_INT32.unpack_from(view, BATCH_LENGTH_AT)[0])
    if size > left_bytes:
        raise CorruptFile(path, position, f"a batch of {size} bytes, but {left_bytes} are left")
    return np.empty(size, np.uint8).data
