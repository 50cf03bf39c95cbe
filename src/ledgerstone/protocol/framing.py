"""Cuts a byte stream into frames: a four-byte size, then that many bytes. Pure.

A frame that lies whole in the data given is handed out as a view of it, without a copy. A frame
that does not is collected in a buffer of its own, which grows as bytes arrive: what a peer
announces costs nothing, only what it sends does. Frames are writable if the data given is, and stay
valid for as long as the giver leaves that data alone; `lends` says whether it has to.
"""

import struct
from typing import Final

from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.types import Buffer

SIZE: Final = struct.Struct(">i")


class BadFrame(ProtocolViolation):
    """A size that is negative or above the limit. Nothing after it can be understood."""


class FrameReader:
    """One direction of one connection. A bad frame ends it, after the good ones before it."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.lends = False  # the last feed() handed out views of the data it was given
        self.failure: BadFrame | None = None
        self._prefix = bytearray()  # one to three bytes of a size, else empty
        self._partial = bytearray()  # the frame being collected
        self._wanted: int | None = None  # its size; None while between frames

    @property
    def pending_bytes(self) -> int:
        """Bytes held here that are not a frame yet."""
        return len(self._prefix) + len(self._partial)

    def feed(self, data: Buffer) -> list[memoryview]:
        """The frames that are complete now, in order. BadFrame once none is left before it."""
        if self.failure is not None:
            raise self.failure
        view = data if isinstance(data, memoryview) else memoryview(data)
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
        self._prefix = bytearray()
        return self._checked(size), position

    def _checked(self, size: int) -> int:
        if not 0 <= size <= self.max_bytes:
            raise BadFrame(f"frame of {size} bytes, allowed are 0 to {self.max_bytes}")
        return size

    def _collect(self, view: memoryview, position: int, frames: list[memoryview]) -> int:
        wanted = self._wanted or 0
        taken = view[position : position + wanted - len(self._partial)]
        self._partial += taken
        if len(self._partial) == wanted:
            frames.append(memoryview(self._partial))
            self._partial = bytearray()
            self._wanted = None
        return position + len(taken)


def frame_prefix(size: int) -> bytes:
    return SIZE.pack(size)
