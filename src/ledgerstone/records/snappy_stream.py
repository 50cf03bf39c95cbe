"""snappy, bare and in the blocks of xerial's stream, which Kafka writes. Grade P.

Declared sizes are checked, never trusted. Imported with the first batch of this codec.
"""

from struct import Struct
from typing import Final

from cramjam import DecompressionError, snappy

from ledgerstone.errors import CorruptRecord, MessageTooLarge
from ledgerstone.types import Buffer

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = Struct(">8sii")
_VERSION: Final = 1
_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = Struct(">i")
# The densest thing snappy can say is "copy 64 bytes" in 3.
_MAX_RATIO: Final = 22
# Each block costs time, whatever its size. Writers use blocks of 32 KiB and more.
_MAX_BLOCKS: Final = 16384


def compress_xerial(payload: Buffer) -> bytes:
    out = bytearray(_HEADER.pack(_MAGIC, _VERSION, _VERSION))
    view = memoryview(payload)
    for start in range(0, len(view), _BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _BLOCK_BYTES]))
        out += _INT32.pack(len(block))
        out += block
    return bytes(out)


def decompress_snappy(payload: memoryview, limit: int) -> bytearray:
    framed = bytes(payload[: len(_MAGIC)]) == _MAGIC
    blocks = _xerial_blocks(payload) if framed else [payload]
    sizes = [_snappy_size(block) for block in blocks]
    total = sum(sizes)
    if total > limit:
        raise MessageTooLarge(f"snappy records decompress to more than {limit} bytes")
    out = bytearray(total)
    room = memoryview(out)
    position = 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            written = snappy.decompress_raw_into(block, room[position : position + size])
        except DecompressionError as error:
            raise CorruptRecord(f"snappy: {error}") from None
        if written != size:
            raise CorruptRecord(f"snappy: block of {size} bytes has {written}")
        position += size
    return out


def _xerial_blocks(payload: memoryview) -> list[memoryview]:
    if len(payload) < _HEADER.size:
        raise CorruptRecord(f"snappy: {len(payload)} bytes end inside the stream header")
    _, _, compatible_version = _HEADER.unpack_from(payload)
    if compatible_version < _VERSION:
        raise CorruptRecord(f"snappy: stream for version {compatible_version}")
    blocks: list[memoryview] = []
    position = _HEADER.size
    while position < len(payload):
        if len(payload) - position < _INT32.size:
            raise CorruptRecord(f"snappy: stream ends inside the block length at {position}")
        (length,) = _INT32.unpack_from(payload, position)
        position += _INT32.size
        if not 0 < length <= len(payload) - position:
            raise CorruptRecord(
                f"snappy: block of {length} bytes at {position}, {len(payload) - position} left"
            )
        blocks.append(payload[position : position + length])
        if len(blocks) > _MAX_BLOCKS:
            raise CorruptRecord(f"snappy: more than {_MAX_BLOCKS} blocks")
        position += length
    return blocks


def _snappy_size(block: memoryview) -> int:
    try:
        size = int(snappy.decompress_raw_len(block))
    except DecompressionError as error:
        raise CorruptRecord(f"snappy: {error}") from None
    if size > _MAX_RATIO * len(block):
        raise CorruptRecord(f"snappy: block of {len(block)} bytes declares {size}")
    return size
