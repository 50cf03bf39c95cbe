"""Kernel source: zigzag varints, every byte bounds-checked before it is read. Pure.

A reader returns (value, next position), and in place of the position the negative of a RecordFault.
"""

from ledgerstone.records.kernels.source.words import Pointer, i64, u64

TRUNCATED = 1
VARINT_TOO_LONG = 2


def read_varint(buffer: Pointer, position: int, end: int) -> tuple[int, int]:
    """A 32-bit varint: at most five bytes and no bit past the 32nd."""
    if position >= end:
        return 0, -TRUNCATED
    byte = i64(buffer[position])
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    if position + 1 < end:
        # Two bytes, the length of most values, are worth a branch too.
        second = i64(buffer[position + 1])
        if second < 0x80:
            raw = (byte & 0x7F) | (second << 7)
            return (raw >> 1) ^ -(raw & 1), position + 2
    return read_long_varint(buffer, position, end)


def read_long_varint(buffer: Pointer, position: int, end: int) -> tuple[int, int]:
    """Apart from `read_varint` so that the short cases, nearly all of them, stay small."""
    raw = 0
    for shift in range(0, 35, 7):
        if position >= end:
            return 0, -TRUNCATED
        byte = i64(buffer[position])
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw > 0xFFFFFFFF:
                break
            return (raw >> 1) ^ -(raw & 1), position
    return 0, -VARINT_TOO_LONG


def read_varlong(buffer: Pointer, position: int, end: int) -> tuple[int, int]:
    """A 64-bit varint: at most ten bytes and no bit past the 64th."""
    if position >= end:
        return 0, -TRUNCATED
    byte = i64(buffer[position])
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return read_long_varlong(buffer, position, end)


def read_long_varlong(buffer: Pointer, position: int, end: int) -> tuple[int, int]:
    raw = u64(0)
    for shift in range(0, 70, 7):
        if position >= end:
            return 0, -TRUNCATED
        byte = i64(buffer[position])
        position += 1
        raw = u64(raw | u64(u64(byte & 0x7F) << shift))
        if byte < 0x80:
            if shift == 63 and byte > 1:
                break
            return i64(raw >> u64(1)) ^ -i64(raw & u64(1)), position
    return 0, -VARINT_TOO_LONG


def varlong_size(value: int) -> int:
    """Bytes `write_varlong` takes."""
    raw = u64((value << 1) ^ (value >> 63))
    size = 1
    while raw >= u64(0x80):
        raw = raw >> u64(7)
        size += 1
    return size


def write_varlong(target: Pointer, position: int, value: int) -> int:
    """Writes the shortest form and returns the position after it; the caller has checked room."""
    raw = u64((value << 1) ^ (value >> 63))
    while raw >= u64(0x80):
        target[position] = i64(raw & u64(0x7F)) | 0x80
        raw = raw >> u64(7)
        position += 1
    target[position] = i64(raw)
    return position + 1
