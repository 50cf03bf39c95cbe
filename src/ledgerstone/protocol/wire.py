"""Wire primitives that compiled codecs call where straight-line code is not enough. Pure.

Unsigned varints are LEB128 of at most five bytes; lengths and counts in flexible versions are
stored plus one, so that zero can mean null. Readers take the first byte already read: nearly every
varint has only one, and the compiled code handles that case itself.
"""

from typing import Final, NoReturn

from ledgerstone.errors import LedgerstoneError
from ledgerstone.types import Buffer

ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))
UVARINT_MAX: Final = 2**32 - 1
# In one place. Each takes two bytes or more and a tenth of a microsecond: a frame of 100 MiB would
# hold up everybody for seconds.
MOST_TAGS: Final = 1 << 16


class ProtocolViolation(LedgerstoneError):
    """The peer broke the protocol and no response is possible; the connection is closed."""


class MalformedMessage(ProtocolViolation):
    """Bytes that are not the message they claim to be."""

    def __init__(self, message: str, version: int, field: str, position: int, reason: str) -> None:
        where = f"{message} v{version}, field {field}, position {position}"
        super().__init__(f"{where}: {reason}")
        self.message = message
        self.version = version
        self.field = field
        self.position = position
        self.reason = reason


class BrokenBytes(Exception):
    """Raised inside compiled code, which knows the reason but not the position."""


def broken(reason: str) -> NoReturn:
    raise BrokenBytes(reason)


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    first = data[position]
    if first < 128:
        return first, position + 1
    return rest_of_uvarint(data, position + 1, first)


def rest_of_uvarint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """A varint whose first byte says that more follow. Returns the value and what comes after."""
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > UVARINT_MAX:
                broken(f"varint {value} does not fit into 32 bits")
            return value, position
    broken("varint longer than five bytes")


def uvarint(value: int) -> bytes:
    if value < 128:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(data: Buffer, position: int, count: int) -> int:
    """Skips tagged fields this version does not know; `count` is the first byte of their count."""
    if count > 127:
        count, position = rest_of_uvarint(data, position, count)
    return skip_counted_tags(data, position, count)


def skip_counted_tags(data: Buffer, position: int, count: int) -> int:
    """The same for so many of them."""
    if count > MOST_TAGS:
        broken(f"{count} tagged fields, more than {MOST_TAGS}")
    for _ in range(count):
        _, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        position += size
        if position > len(data):
            broken(f"a tagged field of {size} bytes ends past the message")
    return position
