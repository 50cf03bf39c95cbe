"""Kernel source: spans of bytes to Arrow's layouts. Pure.

Arrow's own words: offsets delimit the values in one run of data bytes, validity is a bitmap with
the least significant bit first, a view is sixteen bytes that hold or name the value.
"""

from ledgerstone.records.kernels.descriptors import (
    HeadersCall,
    LargeGatherCall,
    SmallGatherCall,
    ViewsCall,
)
from ledgerstone.records.kernels.source.record import read_bytes_length
from ledgerstone.records.kernels.source.siphash import BAD_SPAN, span_is_inside
from ledgerstone.records.kernels.source.words import Pointer, copy_bytes, i64

NO_ROOM = 100
BAD_HEADERS = 103

VIEW_SIZE = 16
INLINE_SIZE = 12


def measure_bytes(length: Pointer, count: int, report: Pointer) -> int:
    """report: bytes in all, nulls."""
    total = 0
    nulls = 0
    for index in range(count):
        size = i64(length[index])
        total += max(size, 0)
        nulls += size < 0
    report[0] = total
    report[1] = nulls
    return 0


def gather_bytes(call: SmallGatherCall | LargeGatherCall) -> int:
    """Copies the spans one after the other."""
    start, length, split, end = call.start, call.length, call.split, call.end
    buffer, arena, validity, data = call.buffer, call.arena, call.validity, call.data
    at, offsets = 0, call.offsets
    offsets[0] = 0
    for index in range(call.count):
        size = i64(length[index])
        if size >= 0:
            position = start[index]
            call.report[0] = index
            if not span_is_inside(position, size, split, end):
                return BAD_SPAN
            if size > call.room - at:
                return NO_ROOM
            validity[index >> 3] = i64(validity[index >> 3]) | (1 << (index & 7))
            if position >= split:
                copy_bytes(data, at, arena, position - split, size)
            else:
                copy_bytes(data, at, buffer, position, size)
            at += size
        offsets[index + 1] = at
    return 0


def make_views(call: ViewsCall) -> int:
    """Views into data buffer 0 (the window) and 1 (the arena)."""
    start, length, split, end = call.start, call.length, call.split, call.end
    buffer, arena, validity, views = call.buffer, call.arena, call.validity, call.views
    for index in range(call.count):
        size = i64(length[index])
        if size < 0:
            continue
        position = start[index]
        if not span_is_inside(position, size, split, end):
            call.report[0] = index
            return BAD_SPAN
        validity[index >> 3] = i64(validity[index >> 3]) | (1 << (index & 7))
        source = buffer
        which = 0
        if position >= split:
            source = arena
            position -= split
            which = 1
        at = index * VIEW_SIZE
        write_word(views, at, size)
        if size <= INLINE_SIZE:
            copy_bytes(views, at + 4, source, position, size)
        else:
            copy_bytes(views, at + 4, source, position, 4)
            write_word(views, at + 8, which)
            write_word(views, at + 12, position)
    return 0


def write_word(target: Pointer, at: int, value: int) -> None:
    """Four bytes, little-endian."""
    target[at] = value & 0xFF
    target[at + 1] = (value >> 8) & 0xFF
    target[at + 2] = (value >> 16) & 0xFF
    target[at + 3] = (value >> 24) & 0xFF


def span_headers(call: HeadersCall) -> int:
    """Spans of every header's key and value, and where each record's list of them begins."""
    headers_start, headers_length, split = call.start, call.length, call.split
    key_start, key_length = call.key_start, call.key_length
    value_start, value_length = call.value_start, call.value_length
    lists, report = call.lists, call.report
    written = 0
    lists[0] = 0
    for index in range(call.count):
        report[0] = index
        start = headers_start[index]
        if not span_is_inside(start, i64(headers_length[index]), split, call.end):
            return BAD_SPAN
        source = call.buffer
        shift = 0
        if start >= split:
            source = call.arena
            shift = split
        position = start - shift
        stop = position + i64(headers_length[index])
        for _ in range(i64(call.header_count[index])):
            if written >= call.room:
                return NO_ROOM
            fault, size, position = read_bytes_length(source, position, stop)
            if fault != 0 or size < 0:
                return BAD_HEADERS
            key_start[written] = position + shift
            key_length[written] = size
            fault, size, position = read_bytes_length(source, position + size, stop)
            if fault != 0:
                return BAD_HEADERS
            value_start[written] = position + shift
            value_length[written] = size
            position += max(size, 0)
            written += 1
        lists[index + 1] = written
    report[0] = written
    return 0
