"""Memory for frames that arrive in parts, shared by all connections and limited. Pure.

The connections of a broker share one of these. A frame that arrives whole needs none. Otherwise it
gets its own buffer, which grows with the bytes received, never with the announced size. Buffers of
the usual size are reused: fresh memory costs more than the copy it saves.

Above `limit_bytes` no buffer grows except the oldest, so there is always one frame that can be
finished. The total stays below the limit plus one frame and a first part for each connection.
"""

from typing import Final

# A batch of the default max.message.bytes, and what it travels in.
POOLED_BYTES: Final = (1 << 20) + (1 << 16)
# Smaller frames would waste most of such a buffer.
_POOLED_FROM_BYTES: Final = POOLED_BYTES // 4
MAX_SPARES: Final = 8
# Bytes to read before the size of a frame is known, if it is likely to need its own buffer or
# memory is short. Most requests are smaller.
FIRST_PART_BYTES: Final = 4096
# A peer that has sent this much of a frame, or a frame like it before, is taken seriously.
_TRUSTED_BYTES: Final = 1 << 14
_UNLIMITED: Final = 1 << 62


def growth(size: int, wanted: int) -> int:
    """How much a full buffer of `size` bytes grows at a time, for a frame of `wanted`."""
    return min(max(size, FIRST_PART_BYTES), wanted - size)


class FrameMemory:
    """Invariant: `reserved_bytes` is the size of all buffers handed out and not released, and of
    what was reserved without a buffer."""

    def __init__(
        self, limit_bytes: int = _UNLIMITED, *, max_spares: int = 0, believes: bool = False
    ) -> None:
        self.limit_bytes = limit_bytes
        self._max_spares = max_spares
        # Gives a frame all its memory at once: for clients, which trust their broker.
        self._believes = believes
        self.reserved_bytes = 0
        # Memory, or the place in front, has become free; the reader of this flag resets it.
        self.has_given_back = False
        # Connections in the middle of a frame, oldest first.
        self.collecting: dict[int, None] = {}
        self._spares: list[bytearray] = []

    @property
    def is_tight(self) -> bool:
        return self.reserved_bytes >= self.limit_bytes

    def may_grow(self, owner: int, size: int) -> bool:
        if self.reserved_bytes + size <= self.limit_bytes:
            return True
        return next(iter(self.collecting), None) == owner

    def begin(self, owner: int, received: int, wanted: int, *, is_known: bool) -> bytearray:
        """A buffer for a frame of `wanted` bytes of which `received` are there; never refused."""
        self.collecting[owner] = None
        trusted = is_known or received >= _TRUSTED_BYTES
        if self._believes:
            buffer = bytearray(wanted)
        elif not trusted or wanted > POOLED_BYTES or self.is_tight:
            buffer = bytearray(received)
        elif self._spares and wanted > _POOLED_FROM_BYTES:
            buffer = self._spares.pop()
        elif self._max_spares and wanted > _POOLED_FROM_BYTES:
            buffer = bytearray(POOLED_BYTES)
        else:
            buffer = bytearray(wanted)
        self.reserved_bytes += len(buffer)
        return buffer

    def grow(self, buffer: bytearray, more: int) -> None:
        buffer += bytes(more)
        self.reserved_bytes += more

    def complete(self, owner: int) -> None:
        """The frame is whole; its buffer stays reserved until it is released."""
        self.collecting.pop(owner, None)
        self.has_given_back = True

    def reserve(self, size: int) -> None:
        """Counts memory that was not taken from here."""
        self.reserved_bytes += size

    def release(self, size: int) -> None:
        self.reserved_bytes -= size
        self.has_given_back = True

    def take_back(self, buffer: bytearray) -> None:
        """Takes back an unused buffer. If views of it still exist, it is not reused."""
        self.release(len(buffer))
        if len(buffer) != POOLED_BYTES or len(self._spares) >= self._max_spares:
            return
        try:
            # Python refuses to resize a buffer while a view of it exists.
            buffer.append(buffer.pop())
        except BufferError:
            return
        self._spares.append(buffer)
