"""Cuts a byte stream into frames: a four-byte size, then that many bytes. Pure.

A frame that is whole in the given data is returned as a view of it, without a copy. Any other frame
is collected in its own buffer from `frame_memory`, which grows as bytes arrive: announced bytes
cost nothing, only received ones do. A socket reader may ask for `room` in that buffer and receive
into it, which saves a copy. Frames are writable if the given data is. A view stays valid as long as
the caller does not change that data; `lends` says whether there are any.
"""

import struct
from typing import Final

from ledgerstone.protocol.frame_memory import FIRST_PART_BYTES, FrameMemory, growth
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.types import Buffer

SIZE: Final = struct.Struct(">i")
# Larger frames seldom arrive whole.
BULK_BYTES: Final = 1 << 16
_TLS_START: Final = 0x1603


class BadFrame(ProtocolViolation):
    """A size that is negative or above the limit. The rest of the stream is unreadable."""


class TlsHandshake(BadFrame):
    """The size is how a TLS handshake begins: content type 22, then the major version 3."""


class FrameReader:
    """One direction of one connection. A bad frame ends it, after the good ones before it.

    Between frames `_wanted` is None and `_buffer` empty. Else `_filled` bytes of the frame are in
    `_buffer`."""

    __slots__ = (
        "_buffer",
        "_filled",
        "_memory",
        "_owner",
        "_prefix",
        "_wanted",
        "failure",
        "is_bulk",
        "lends",
        "max_bytes",
    )

    def __init__(
        self, max_bytes: int, memory: FrameMemory | None = None, *, owner: int = 0
    ) -> None:
        self.max_bytes = max_bytes
        self.lends = False  # the last feed() returned views of its data
        self.failure: BadFrame | None = None
        self.is_bulk = False  # the last frame that was collected was a large one
        self._memory = FrameMemory() if memory is None else memory
        self._owner = owner
        self._prefix = b""  # one to three bytes of a size, else empty
        self._buffer = bytearray()
        self._filled = 0
        self._wanted: int | None = None

    @property
    def pending_bytes(self) -> int:
        """Bytes held here that are not a frame yet."""
        return len(self._prefix) + self._filled

    @property
    def is_between_frames(self) -> bool:
        """Whether the size of the next frame is still unknown."""
        return self._wanted is None

    @property
    def is_collecting(self) -> bool:
        """Whether a part of a frame has arrived."""
        return self._filled > 0

    @property
    def is_worth_room(self) -> bool:
        """Whether so much of a frame is missing that receiving it in place beats a copy.

        For a smaller rest, the frames after it would need a separate read."""
        if self._wanted is None or not self._filled:
            return False
        return self.is_bulk or self._wanted - self._filled > BULK_BYTES

    @property
    def is_starved(self) -> bool:
        """Whether the current frame needs memory that others hold."""
        if self._wanted is None or self._filled < len(self._buffer):
            return False
        if self._wanted <= FIRST_PART_BYTES:
            return False  # it costs no more than what was read before its size was known
        more = growth(self._filled, self._wanted)
        return not self._memory.may_grow(self._owner, more)

    def feed(self, data: Buffer) -> list[memoryview]:
        """The frames that are complete now, in order. BadFrame after the good ones are returned."""
        if self.failure is not None:
            raise self.failure
        view = data if type(data) is memoryview else memoryview(data)
        if self._wanted is None and not self._prefix and len(view) >= SIZE.size:
            size = SIZE.unpack_from(view)[0]
            if size == len(view) - SIZE.size <= self.max_bytes:
                # The usual case: one whole request and nothing else.
                self.lends = True
                return [view[SIZE.size :]]
        return self._feed(view)

    def _feed(self, view: memoryview) -> list[memoryview]:
        frames: list[memoryview] = []
        self.lends = False
        try:
            self._cut(view, frames)
        except BadFrame as error:
            self.failure = error
            if not frames:
                raise
        return frames

    def _cut(self, view: memoryview, frames: list[memoryview]) -> None:
        position = 0
        if self._wanted is not None:
            position = self._collect(view, 0, frames)
        while position < len(view):
            size, position = self._size(view, position)
            if size is None:
                return
            end = position + size
            if end <= len(view):
                frames.append(view[position:end])
                self.lends = True
                position = end
            else:
                self._wanted = size
                position = self._collect(view, position, frames)

    def _size(self, view: memoryview, position: int) -> tuple[int | None, int]:
        """The size that starts in the prefix or at `position`; None if bytes of it are missing."""
        if not self._prefix and len(view) - position >= SIZE.size:
            size: int = SIZE.unpack_from(view, position)[0]
            return self._checked(size), position + SIZE.size
        taken = view[position : position + SIZE.size - len(self._prefix)]
        self._prefix += taken
        position += len(taken)
        if len(self._prefix) < SIZE.size:
            return None, position
        size = SIZE.unpack(self._prefix)[0]
        self._prefix = b""
        return self._checked(size), position

    def _checked(self, size: int) -> int:
        if not 0 <= size <= self.max_bytes:
            if size >> 16 == _TLS_START:
                raise TlsHandshake("a TLS handshake, but the listener is PLAINTEXT")
            raise BadFrame(f"frame of {size} bytes, allowed are 0 to {self.max_bytes}")
        return size

    # -- frames that come in parts ------------------------------------------------------------

    def _collect(self, view: memoryview, position: int, frames: list[memoryview]) -> int:
        """Copies the part of the current frame in `view`; returns where it ends."""
        assert self._wanted is not None
        taken = view[position : position + self._wanted - self._filled]
        if not taken:
            return position
        end = self._filled + len(taken)
        if not self._filled:
            self._buffer = self._memory.begin(self._owner, end, self._wanted, is_known=self.is_bulk)
        elif end > len(self._buffer):
            # Received bytes cannot be refused; `is_starved` stops the reading earlier.
            more = growth(len(self._buffer), self._wanted)
            self._memory.grow(self._buffer, max(more, end - len(self._buffer)))
        self._buffer[self._filled : end] = taken
        self._filled = end
        frames.extend(self._completed())
        return position + len(taken)

    def room(self) -> memoryview:
        """Where to put the next bytes of the current frame: up to its end, never beyond. Release
        the view, then call `fill` with the number of bytes."""
        assert self._wanted is not None
        if self._filled == len(self._buffer):
            more = growth(self._filled, self._wanted)
            self._memory.grow(self._buffer, more)
        return memoryview(self._buffer)[self._filled : self._wanted]

    def fill(self, count: int) -> list[memoryview]:
        """`count` bytes were put into `room`; returns the frame if it is complete."""
        self.lends = False
        self._filled += count
        return self._completed()

    def _completed(self) -> list[memoryview]:
        if self._filled != self._wanted:
            return []
        frame = memoryview(self._buffer)[: self._filled]
        self._memory.complete(self._owner)
        self.is_bulk = self._filled > BULK_BYTES
        self._buffer, self._filled, self._wanted = bytearray(), 0, None
        return [frame]

    def abandon(self) -> None:
        """The connection is gone; drops the collected bytes."""
        self._memory.complete(self._owner)
        self._memory.release(len(self._buffer))
        self._buffer, self._filled, self._wanted = bytearray(), 0, None


def frame_prefix(size: int) -> bytes:
    return SIZE.pack(size)
