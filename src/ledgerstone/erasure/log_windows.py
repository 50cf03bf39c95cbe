"""A file read in windows: whole batches where it is a log, plain bytes everywhere else. Grade D.

Nothing here gives up: what cannot be read as batches is noted as damage and handed on as bytes. A
window has a lead, the bytes before it, so that a string across two windows is seen whole in the
second one. CRCs are checked by whoever finds something.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.scan_plan import UnreadableBytes
from ledgerstone.errors import KafkaError, MessageTooLarge
from ledgerstone.fs import File
from ledgerstone.records.batch import BATCH_LENGTH_AT, LOG_OVERHEAD, MAGIC_END, iter_headers
from ledgerstone.records.kernels import Batches, Columns, scan, walk

WINDOW_BYTES: Final = 2 << 20
# A batch that says it is larger is taken for debris; brokers refuse them long before.
MAX_BATCH_BYTES: Final = 128 << 20
# Decompressed payloads of one walk; a larger batch is walked alone, up to the plan's limit.
PIECE_LIMIT_BYTES: Final = 8 << 20

_INT32: Final = Struct(">i")


class LogWindow(NamedTuple):
    """view[lead:end] is what is new. The bytes are good until the next window is asked for."""

    view: memoryview
    lead: int
    end: int
    position: int  # in the file, of view[lead]
    batches: Batches | None  # positions in `view`; None where there is no structure

    @property
    def file_position(self) -> int:
        """What to add to a position in `view` to get one in the file."""
        return self.position - self.lead


@dataclass(slots=True)
class WindowReader:
    """Reads one file after the other through one buffer."""

    lead_bytes: int
    before_read: Callable[[int], None]  # how many bytes come next; may wait, or raise
    decompression_limit: int
    damaged: list[UnreadableBytes] = field(default_factory=list)
    _buffer: memoryview = field(init=False)

    def __post_init__(self) -> None:
        content = max(WINDOW_BYTES, self.lead_bytes)
        # Not bytearray: nobody needs the zeros.
        self._buffer = np.empty(self.lead_bytes + content, np.uint8).data

    def windows(self, file: File, name: str, size: int, *, is_log: bool) -> Iterator[LogWindow]:
        """Up to `size` bytes, or as many as there still are."""
        position = 0
        room = len(self._buffer) - self.lead_bytes
        while position < size:
            lead = min(position, self.lead_bytes)
            wanted = min(room, size - position)
            self.before_read(wanted)
            view = self._view(lead + wanted)
            filled = file.pread_into(view, position - lead)
            if filled <= lead:
                return
            view = view[:filled]
            batches = _scan(view, lead) if is_log else None
            if batches is not None and len(batches) == 0:
                batch_bytes = _declared_bytes(view, lead)
                if filled == lead + wanted and room < batch_bytes <= size - position:
                    room = batch_bytes
                    continue
                batches = None
            if is_log and batches is None:
                is_log = not self._note_debris(view[lead:], name, position)
            end = filled if batches is None else batches.consumed
            yield LogWindow(view, lead, end, position, batches)
            position += end - lead
            room = len(self._buffer) - self.lead_bytes

    def _view(self, size: int) -> memoryview:
        if size <= len(self._buffer):
            return self._buffer[:size]
        return np.empty(size, np.uint8).data

    def _note_debris(self, content: memoryview, name: str, position: int) -> bool:
        """From the first bytes that are no batch on, a file is only bytes. Zeros are room that
        was taken in advance."""
        if not np.frombuffer(content, np.uint8).any():
            return False
        self.damaged.append(UnreadableBytes(name, position, "no batch, or one that is cut off"))
        return True

    def pieces(self, window: LogWindow, name: str) -> Iterator[Columns]:
        """The window's records; more than one piece only where payloads take too much memory.

        A batch that cannot be read is passed over, and noted as damage."""
        batches = window.batches
        if batches is None:
            return
        skip = np.zeros(len(batches), np.bool_)
        is_checked = False
        first = 0
        while first < len(batches):
            try:
                columns = self._walk(window.view, batches, skip, first, len(batches))
            except KafkaError:
                assert not is_checked, f"{name} at {window.position}: a checked window fails"
                self._check_each(window, batches, skip, name)
                is_checked = True
                continue
            yield columns
            first += len(columns.batches)

    def _walk(
        self, view: memoryview, batches: Batches, skip: NDArray[np.bool_], first: int, last: int
    ) -> Columns:
        start = int(batches.position[first])
        end = int(batches.position[last - 1] + batches.size[last - 1])

        def walk_within(limit: int) -> Columns:
            flags = skip[first:last]
            return walk(view, start=start, end=end, verify_crc=False, limit=limit, skip=flags)

        try:
            return walk_within(PIECE_LIMIT_BYTES)
        except MessageTooLarge:
            return walk_within(self.decompression_limit)

    def _check_each(
        self, window: LogWindow, batches: Batches, skip: NDArray[np.bool_], name: str
    ) -> None:
        for index in range(len(batches)):
            try:
                self._walk(window.view, batches, skip, index, index + 1)
            except KafkaError as error:
                skip[index] = True
                at = window.file_position + int(batches.position[index])
                self.damaged.append(UnreadableBytes(name, at, str(error)))


def _scan(view: memoryview, start: int) -> Batches | None:
    """The batches up to the first bytes that are none; None where those come first."""
    try:
        return scan(view, start=start)
    except KafkaError:
        end = _good_bytes(view, start)
        return scan(view, start=start, end=end) if end > start else None


def _good_bytes(view: memoryview, start: int) -> int:
    end = start
    try:
        for at, header in iter_headers(view, start):
            if header.record_count < 0:
                break
            end = at + header.size
    except KafkaError:
        pass
    return end


def _declared_bytes(view: memoryview, start: int) -> int:
    """The size of the one batch that does not fit; 0 for what is no size."""
    if len(view) - start < MAGIC_END:
        return 0
    size = LOG_OVERHEAD + int(_INT32.unpack_from(view, start + BATCH_LENGTH_AT)[0])
    return size if size <= MAX_BATCH_BYTES else 0
