"""LZ4 frames: written by the library, read block by block into memory that is kept.

Grade P. Nearly every frame in a log has one of four headers, and those are decoded here. Any other
frame goes to the library, which then also verifies the checksums. README.md, "Compression", lists
the accepted frames.
"""

from struct import Struct, error
from typing import Final

import lz4.frame
from cramjam import DecompressionError
from cramjam import lz4 as lz4_blocks

from ledgerstone.errors import CorruptRecord, MessageTooLarge
from ledgerstone.types import Buffer

_KIB: Final = 1024
_MAGIC: Final = b"\x04\x22\x4d\x18"
_HEADER_SIZE: Final = 7
# Independent blocks, no sizes, no checksums: whole headers, so that the checksum at their end has
# been verified once they are found, and the largest block.
_PLAIN_HEADERS: Final = {
    _MAGIC + b"\x60\x40\x82": 64 * _KIB,
    _MAGIC + b"\x60\x50\xfb": 256 * _KIB,
    _MAGIC + b"\x60\x60\x51": 1024 * _KIB,
    _MAGIC + b"\x60\x70\x73": 4096 * _KIB,
}
_USUAL_HEADER: Final = _MAGIC + b"\x60\x40\x82"
USUAL_BLOCK_BYTES: Final = 64 * _KIB

_HEADER_AND_LENGTH: Final = Struct("<7sI")
_LENGTH: Final = Struct("<I")
_STORED: Final = 1 << 31  # in a length: the block is not compressed
# The most bytes that one byte of a block can stand for.
_MAX_RATIO: Final = 255
# Each block costs time; the library is faster with very many of them.
_MAX_BLOCKS: Final = 16384
_CHUNK_BYTES: Final = 256 * _KIB
# Fits the largest block. Larger memory is freed at once.
_KEPT_BYTES: Final = 4096 * _KIB

# In Kafka level 9, its default, means the fast compressor and every other level the slow one.
_FAST_LEVEL: Final = 9
_MIN_SLOW: Final = 3
_MAX_SLOW: Final = 12

# Where a block starts and ends, and whether it is stored.
_Block = tuple[int, int, bool]


class Lz4FrameReader:
    """Decompresses into reused memory: allocating costs as much as filling it."""

    __slots__ = ("_memory",)

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(USUAL_BLOCK_BYTES))

    def read(self, payload: memoryview, limit: int) -> Buffer:
        """At most `limit` bytes. A memoryview is of reused memory, valid until the next call;
        anything else belongs to the caller."""
        if limit >= USUAL_BLOCK_BYTES:
            used = read_usual(payload, self._memory[:USUAL_BLOCK_BYTES])
            if used is not None:
                return self._memory[:used]
        head = bytes(payload[:_HEADER_SIZE])
        block_bytes = _PLAIN_HEADERS.get(head)
        blocks = None if block_bytes is None else _split(payload, block_bytes)
        if block_bytes is None or blocks is None:
            return _read_stream(payload, head, limit)
        return self._read_blocks(payload, blocks, block_bytes, limit)

    def _read_blocks(
        self, payload: memoryview, blocks: list[_Block], block_bytes: int, limit: int
    ) -> Buffer:
        needed = sum(min(block_bytes, _MAX_RATIO * (end - start)) for start, end, _ in blocks)
        # A frame that passes the limit is abandoned, so the last block begins below it.
        needed = min(needed, limit + block_bytes)
        if needed > _KEPT_BYTES:
            memory = bytearray(needed)
            with memoryview(memory) as room:
                used = _fill(room, payload, blocks, block_bytes, limit)
            del memory[used:]
            return memory
        if needed > len(self._memory):
            self._memory = memoryview(bytearray(needed))
        return self._memory[: _fill(self._memory, payload, blocks, block_bytes, limit)]


def read_usual(payload: memoryview, room: memoryview) -> int | None:
    """Decodes the usual frame, a single block, into `room` of USUAL_BLOCK_BYTES; returns its size.
    None for any other frame, which must be walked."""
    size = len(payload) - _HEADER_AND_LENGTH.size - _LENGTH.size
    if (
        not 0 < size <= USUAL_BLOCK_BYTES
        or _HEADER_AND_LENGTH.unpack_from(payload) != (_USUAL_HEADER, size)
        or _LENGTH.unpack_from(payload, len(payload) - _LENGTH.size) != (0,)
    ):
        return None
    start = _HEADER_AND_LENGTH.size
    return _decode(payload, start, start + size, room)


def write_frame(payload: Buffer, level: int | None) -> bytes:
    """`level` is one of Kafka's; None is the default."""
    fast = level is None or level == _FAST_LEVEL
    frame: bytes = lz4.frame.compress(
        payload,
        compression_level=0 if fast else max(_MIN_SLOW, min(level or 0, _MAX_SLOW)),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _split(payload: memoryview, block_bytes: int) -> list[_Block] | None:
    """The blocks of a frame that ends where the payload does; None if they are too many."""
    blocks: list[_Block] = []
    available = len(payload)
    position = _HEADER_SIZE
    while len(blocks) < _MAX_BLOCKS:
        try:
            (head,) = _LENGTH.unpack_from(payload, position)
        except error:
            raise CorruptRecord(f"lz4: {available} bytes end inside the frame") from None
        position += _LENGTH.size
        if head == 0:
            if position < available:
                raise CorruptRecord(f"lz4: {available - position} bytes after the frame")
            return blocks
        size = head & ~_STORED
        # Kafka takes an empty stored block for the frame's end; the library ignores it.
        if not 0 < size <= min(block_bytes, available - position):
            raise CorruptRecord(
                f"lz4: block of {size} bytes at {position}, {available - position} left, "
                f"{block_bytes} allowed"
            )
        blocks.append((position, position + size, head != size))
        position += size
    return None


def _fill(
    room: memoryview, payload: memoryview, blocks: list[_Block], block_bytes: int, limit: int
) -> int:
    """The decoded size of the blocks."""
    used = 0
    for start, end, is_stored in blocks:
        if is_stored:
            size = end - start
            room[used : used + size] = payload[start:end]
        else:
            size = _decode(payload, start, end, room[used : used + block_bytes])
        used += size
        if used > limit:
            raise _too_large(limit)
    return used


def _decode(payload: memoryview, start: int, end: int, room: memoryview) -> int:
    """A block may fill `room`, which must not be larger than the largest block."""
    try:
        return lz4_blocks.decompress_block_into(payload[start:end], room, len(room))
    except DecompressionError as problem:
        raise CorruptRecord(f"lz4: block at {start}: {problem}") from None


def _read_stream(payload: memoryview, head: bytes, limit: int) -> bytes | bytearray:
    _check_header(head)
    context = lz4.frame.create_decompression_context()
    out = bytearray()
    position = 0
    ended = False
    while not ended:
        try:
            chunk, taken, ended = lz4.frame.decompress_chunk(
                context, payload[position:], max_length=_CHUNK_BYTES
            )
        except RuntimeError as problem:
            raise CorruptRecord(f"lz4: {problem}") from None
        if not (chunk or taken or ended):
            raise CorruptRecord(f"lz4: {len(payload)} bytes end inside the frame")
        position += taken
        if ended and not out and position == len(payload) and len(chunk) <= limit:
            # A single piece, as nearly always: nothing to join.
            whole: bytes = chunk
            return whole
        out += chunk
        if len(out) > limit:
            raise _too_large(limit)
    if position < len(payload):
        raise CorruptRecord(f"lz4: {len(payload) - position} bytes after the frame")
    return out


def _check_header(head: bytes) -> None:
    """Checks that Kafka's reader makes and the library does not."""
    if len(head) < _HEADER_SIZE or not head.startswith(_MAGIC):
        raise CorruptRecord(f"lz4: no frame starts with {head[:4].hex()}")
    flags, block_descriptor = head[4], head[5]
    if flags >> 6 != 1 or flags & 0x20 == 0 or flags & 0x03:
        raise CorruptRecord(f"lz4: flags {flags:#04x} are not of independent blocks, version 1")
    if block_descriptor & 0x8F or not 4 <= block_descriptor >> 4 <= 7:
        raise CorruptRecord(f"lz4: block descriptor {block_descriptor:#04x}")


def _too_large(limit: int) -> MessageTooLarge:
    return MessageTooLarge(f"lz4 records decompress to more than {limit} bytes")
