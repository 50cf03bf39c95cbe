"""Cuts a byte stream into frames: a four-byte size, then that many bytes. Pure.

A frame that lies whole in the data given is handed out as a view of it, without a copy. A frame
that does not is collected in a buffer of its own from `frame_memory`, which grows as bytes arrive:
what a peer announces costs nothing, only what it sends does. Whoever reads from a socket may ask
for `room` in that buffer and receive into it, which saves a copy. Frames are writable if the data
given is. A frame that was lent stays valid for as long as the giver leaves that data alone; `lends`
says whether it has to.
"""

import struct
from typing import Final

from ledgerstone.protocol.frame_memory import FIRST_PART_BYTES, FrameMemory, growth
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.types import Buffer

SIZE: Final = struct.Struct(">i")
# Above this a frame seldom comes whole.
BULK_BYTES: Final = 1 << 16
_TLS_START: Final = 0x1603


class BadFrame(ProtocolViolation):
    """A size that is negative or above the limit. Nothing after it can be understood."""


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
        self.lends = False  # the last feed() handed out views of the data it was given
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
        """The size of the next frame is not known yet."""
        return self._wanted is None

    @property
    def is_collecting(self) -> bool:
        """A part of a frame is here."""
        return self._filled > 0

    @property
    def is_worth_room(self) -> bool:
        """So much of a frame is still to come that to receive it in place beats a copy.

        Of a smaller rest the next frames would have to be read in a call of their own."""
        if self._wanted is None or not self._filled:
            return False
        return self.is_bulk or self._wanted - self._filled > BULK_BYTES

    @property
    def is_starved(self) -> bool:
        """The frame under way needs memory that others have."""
        if self._wanted is None or self._filled < len(self._buffer):
            return False
        if self._wanted <= FIRST_PART_BYTES:
            return False  # it costs no more than what was read before its size was known
        more = growth(self._filled, self._wanted)
        return not self._memory.may_grow(self._owner, more)

    def feed(self, data: Buffer) -> list[memoryview]:
        """The frames that are complete now, in order. BadFrame once none is left before it."""
        if self.failure is not None:
            raise self.failure
        view = data if type(data) is memoryview else memoryview(data)
        if self._wanted is None and not self._prefix and len(view) >= SIZE.size:
            size = SIZE.unpack_from(view)[0]
            if size == len(view) - SIZE.size <= self.max_bytes:
                # Nearly always: one request, whole and alone.
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
        """Copies what `view` has of the frame under way; returns where that ends."""
        assert self._wanted is not None
        taken = view[position : position + self._wanted - self._filled]
        if not taken:
            return position
        end = self._filled + len(taken)
        if not self._filled:
            self._buffer = self._memory.begin(self._owner, end, self._wanted, is_known=self.is_bulk)
        elif end > len(self._buffer):
            # What has been received cannot be refused; `is_starved` keeps it from coming.
            more = growth(len(self._buffer), self._wanted)
            self._memory.grow(self._buffer, max(more, end - len(self._buffer)))
        self._buffer[self._filled : end] = taken
        self._filled = end
        frames.extend(self._completed())
        return position + len(taken)

    def room(self) -> memoryview:
        """Where the next bytes of the frame that is being collected belong: up to its end, never
        beyond. Tell `fill` how many came, and let go of the view first."""
        assert self._wanted is not None
        if self._filled == len(self._buffer):
            more = growth(self._filled, self._wanted)
            self._memory.grow(self._buffer, more)
        return memoryview(self._buffer)[self._filled : self._wanted]

    def fill(self, count: int) -> list[memoryview]:
        """`count` bytes were put where `room` said: the frame, if it is complete now."""
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
        """The connection is gone, and what was collected with it."""
        self._memory.complete(self._owner)
        self._memory.release(len(self._buffer))
        self._buffer, self._filled, self._wanted = bytearray(), 0, None


def frame_prefix(size: int) -> bytes:
    return SIZE.pack(size)
