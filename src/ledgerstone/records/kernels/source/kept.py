"""Kernel source: the kept records of one batch, counted, copied or encoded anew. Pure.

The ends of records come from columns that somebody else holds: they are checked against the payload
before each copy, and each copy against `room`.
"""

from ledgerstone.records.kernels.source.record import read_record_head
from ledgerstone.records.kernels.source.varints import varlong_size, write_varlong
from ledgerstone.records.kernels.source.words import Pointer, copy_bytes, i64

NO_ROOM = 100
BAD_RECORD_END = 101
BATCH_TOO_LARGE = 102

INT32_MAX = 2147483647


def summarize_kept(
    keep: Pointer, timestamp: Pointer, value_length: Pointer, first: int, count: int
) -> tuple[int, int, int, int]:
    """(kept records, kept tombstones, timestamp of the first kept, greatest kept timestamp)."""
    kept = 0
    tombstones = 0
    first_timestamp = -1
    max_timestamp = -1
    for index in range(first, first + count):
        if i64(keep[index]) != 0:
            if kept == 0:
                first_timestamp = timestamp[index]
            kept += 1
            max_timestamp = max(max_timestamp, timestamp[index])
            if i64(value_length[index]) < 0:
                tombstones += 1
    return kept, tombstones, first_timestamp, max_timestamp


def copy_kept(
    source: Pointer,
    shift: int,
    start: int,
    end: int,
    keep: Pointer,
    record_end: Pointer,
    first: int,
    count: int,
    out: Pointer,
    at: int,
    room: int,
) -> tuple[int, int]:
    """(fault, position after the copy): runs of kept records as they are."""
    run_start = start
    previous_end = start
    for index in range(first, first + count):
        this_end = record_end[index]
        if this_end < previous_end or this_end > end:
            return BAD_RECORD_END, at
        if i64(keep[index]) == 0:
            if previous_end - run_start > room - at:
                return NO_ROOM, at
            copy_bytes(out, at, source, run_start - shift, previous_end - run_start)
            at += previous_end - run_start
            run_start = this_end
        previous_end = this_end
    if previous_end - run_start > room - at:
        return NO_ROOM, at
    copy_bytes(out, at, source, run_start - shift, previous_end - run_start)
    return 0, at + previous_end - run_start


def reencode_kept(
    source: Pointer,
    shift: int,
    start: int,
    end: int,
    keep: Pointer,
    record_end: Pointer,
    timestamp: Pointer,
    base_timestamp: int,
    first: int,
    count: int,
    out: Pointer,
    at: int,
    room: int,
) -> tuple[int, int]:
    """(fault, position after the last): kept records with deltas against another base timestamp."""
    previous_end = start
    for index in range(first, first + count):
        this_start = previous_end
        this_end = record_end[index]
        if this_end < this_start or this_end > end:
            return BAD_RECORD_END, at
        previous_end = this_end
        if i64(keep[index]) == 0:
            continue
        fault, position, found_end, attributes_at, _, offset_delta = read_record_head(
            source, this_start - shift, this_end - shift
        )
        if fault != 0 or found_end != this_end - shift:
            return BAD_RECORD_END, at
        delta = i64(timestamp[index] - base_timestamp)
        rest = found_end - position
        length = 1 + varlong_size(delta) + varlong_size(offset_delta) + rest
        if length > INT32_MAX:
            return BATCH_TOO_LARGE, at
        if varlong_size(length) + length > room - at:
            return NO_ROOM, at
        at = write_varlong(out, at, length)
        out[at] = source[attributes_at]
        at = write_varlong(out, at + 1, delta)
        at = write_varlong(out, at, offset_delta)
        copy_bytes(out, at, source, position, rest)
        at += rest
    return 0, at
