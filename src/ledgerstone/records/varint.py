"""Zigzag varints as records use them: lengths and deltas in one to ten bytes.

Grade P. Reading never passes `end`, never takes more bytes than the type has, and refuses a last
byte with bits that do not fit the type: readers disagree about what such bits mean.
"""

from typing import Final

from ledgerstone.errors import CorruptRecord
from ledgerstone.types import Buffer

MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10

_INT32_BITS: Final = 32
_INT64_BITS: Final = 64


class VarintCutShort(CorruptRecord):
    """The bytes end before the varint does."""


class VarintTooLong(CorruptRecord):
    """More bytes, or more bits, than the type has."""


def encode_varint(out: bytearray, value: int) -> None:
    """Appends an int32."""
    if -64 <= value < 64:  # nearly always
        out.append(value << 1 if value >= 0 else ~value << 1 | 1)
    else:
        _encode(out, value, _INT32_BITS)


def encode_varlong(out: bytearray, value: int) -> None:
    """Appends an int64."""
    if -64 <= value < 64:
        out.append(value << 1 if value >= 0 else ~value << 1 | 1)
    else:
        _encode(out, value, _INT64_BITS)


def decode_varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """The int32 at `position` and the position after it."""
    return _decode(buffer, position, end, MAX_VARINT_BYTES, _INT32_BITS)


def decode_varlong(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """The int64 at `position` and the position after it."""
    return _decode(buffer, position, end, MAX_VARLONG_BYTES, _INT64_BITS)


def size_of_varint(value: int) -> int:
    """Bytes `value` takes; the same for varint and varlong."""
    bits = (value << 1 if value >= 0 else (~value << 1) | 1).bit_length()
    return max(1, -(-bits // 7))


def _encode(out: bytearray, value: int, bits: int) -> None:
    limit = 1 << (bits - 1)
    if not -limit <= value < limit:
        raise ValueError(f"{value} is not an int{bits}")
    rest = value << 1 if value >= 0 else (~value << 1) | 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _decode(buffer: Buffer, position: int, end: int, max_bytes: int, bits: int) -> tuple[int, int]:
    value = 0
    for taken in range(max_bytes):
        if position + taken >= end:
            raise VarintCutShort(f"varint at {position}: bytes end at {end}")
        byte = buffer[position + taken]
        value |= (byte & 0x7F) << (7 * taken)
        if byte < 0x80:
            if value >> bits:
                raise VarintTooLong(f"varint at {position}: {value:#x} has more than {bits} bits")
            return (value >> 1) ^ -(value & 1), position + taken + 1
    raise VarintTooLong(f"varint at {position}: more than {max_bytes} bytes")
