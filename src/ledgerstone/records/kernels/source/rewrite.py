"""Kernel source: batches without the records a cleaning drops. Pure.

What each kind of batch becomes is the table "What `rewrite` writes" in ../README.md. The records
have been walked: their timestamps and ends are columns, so a run of kept records is one copy.
"""

from ledgerstone.records.kernels.descriptors import RewriteCall
from ledgerstone.records.kernels.source.kept import (
    BATCH_TOO_LARGE,
    INT32_MAX,
    NO_ROOM,
    copy_kept,
    reencode_kept,
    summarize_kept,
)
from ledgerstone.records.kernels.source.walk import (
    ATTRIBUTES,
    BASE_TIMESTAMP,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAX_TIMESTAMP,
    PAYLOAD_END,
    PAYLOAD_START,
    POSITION,
    RECORD_COUNT,
    RECORD_START,
    SIZE,
)
from ledgerstone.records.kernels.source.words import Pointer, copy_bytes, i64

# Bits of a batch's action.
RETAIN_EMPTY = 1
DISCARD = 2
STAMP = 4

# Fields of an outcome row; field f of batch b is outcomes[f * capacity + b].
OUTCOME = 0
OUT_POSITION = 1
OUT_SIZE = 2
KEPT_COUNT = 3
OUT_ATTRIBUTES = 4
OUT_BASE_TIMESTAMP = 5
OUT_MAX_TIMESTAMP = 6
OUTCOME_FIELDS = 7

DROPPED = 0
UNCHANGED = 1
REWRITTEN = 2
EMPTIED = 3

CODEC_MASK = 0x07
DELETE_HORIZON_FLAG = 0x40
KNOWN_ATTRIBUTES = 0x7F


def rewrite_batches(call: RewriteCall) -> int:
    """Writes what is left of each batch to `out`, compressed payloads in the open."""
    capacity, outcomes, report = call.capacity, call.outcomes, call.report
    at = 0
    for batch in range(call.batch_end):
        fault, after = rewrite_batch(call, batch, at)
        if fault != 0:
            report[0] = at
            report[1] = batch
            return fault
        outcomes[OUT_POSITION * capacity + batch] = at
        outcomes[OUT_SIZE * capacity + batch] = after - at
        at = after
    report[0] = at
    return 0


def rewrite_batch(call: RewriteCall, batch: int, at: int) -> tuple[int, int]:
    """(fault, position after what is left of the batch)."""
    rows, capacity, outcomes, horizon = call.rows, call.capacity, call.outcomes, call.horizon
    action = i64(call.actions[batch])
    position = rows[POSITION * capacity + batch]
    size = rows[SIZE * capacity + batch]
    attributes = rows[ATTRIBUTES * capacity + batch]
    old_base = rows[BASE_TIMESTAMP * capacity + batch]
    old_max = rows[MAX_TIMESTAMP * capacity + batch]
    count = rows[RECORD_COUNT * capacity + batch]
    first = rows[RECORD_START * capacity + batch]
    if action & DISCARD:
        count = 0
    kept, tombstones, first_timestamp, max_timestamp = summarize_kept(
        call.keep, call.timestamp, call.value_length, first, count
    )
    outcomes[KEPT_COUNT * capacity + batch] = kept
    if kept == 0:
        return write_empty(call, batch, action, at)
    stamping = horizon >= 0 and (tombstones > 0 or (action & STAMP) != 0)
    stamping = stamping and (attributes & DELETE_HORIZON_FLAG) == 0
    if kept == count and not stamping:
        if size > call.out_room - at:
            return NO_ROOM, at
        copy_bytes(call.out, at, call.buffer, position, size)
        write_outcome(outcomes, capacity, batch, UNCHANGED, attributes, old_base, old_max)
        return 0, at + size

    attributes &= KNOWN_ATTRIBUTES
    new_horizon = horizon if stamping else -1
    attributes, new_base, new_max = rebuilt_timestamps(
        attributes, old_base, old_max, first_timestamp, max_timestamp, new_horizon
    )
    write_outcome(outcomes, capacity, batch, REWRITTEN, attributes, new_base, new_max)
    fault, after = write_kept(call, batch, new_base, at)
    if fault == 0:
        write_header(call, at, position, after - at, attributes, new_base, new_max, kept)
    return fault, after


def rebuilt_timestamps(
    attributes: int,
    old_base: int,
    old_max: int,
    first_timestamp: int,
    max_timestamp: int,
    new_horizon: int,
) -> tuple[int, int, int]:
    """(attributes, base timestamp, max timestamp): a horizon outranks the first kept record."""
    if attributes & LOG_APPEND_TIME_FLAG:
        max_timestamp = old_max
    if attributes & DELETE_HORIZON_FLAG:
        return attributes, old_base, max_timestamp
    if new_horizon >= 0:
        return attributes | DELETE_HORIZON_FLAG, new_horizon, max_timestamp
    return attributes, first_timestamp, max_timestamp


def write_kept(call: RewriteCall, batch: int, new_base: int, at: int) -> tuple[int, int]:
    """(fault, position after the kept records), which begin a header's length behind `at`."""
    rows, capacity, out, room = call.rows, call.capacity, call.out, call.out_room
    start = rows[PAYLOAD_START * capacity + batch]
    end = rows[PAYLOAD_END * capacity + batch]
    first = rows[RECORD_START * capacity + batch]
    count = rows[RECORD_COUNT * capacity + batch]
    append_time = (rows[ATTRIBUTES * capacity + batch] & LOG_APPEND_TIME_FLAG) != 0
    if room - at < HEADER_SIZE:
        return NO_ROOM, at
    body = at + HEADER_SIZE
    source = call.buffer
    shift = 0
    if start >= call.split:
        source = call.arena
        shift = call.split
    # Under LogAppendTime the deltas on disk mean nothing, so they are never taken over.
    if new_base == rows[BASE_TIMESTAMP * capacity + batch] and not append_time:
        fault, after = copy_kept(
            source, shift, start, end, call.keep, call.record_end, first, count, out, body, room
        )
    else:
        fault, after = reencode_kept(
            source, shift, start, end, call.keep, call.record_end, call.timestamp, new_base, first,
            count, out, body, room,
        )  # fmt: skip
    if fault == 0 and after - at - LOG_OVERHEAD > INT32_MAX:
        fault = BATCH_TOO_LARGE
    return fault, after


def write_empty(call: RewriteCall, batch: int, action: int, at: int) -> tuple[int, int]:
    """A header alone where the batch must stay visible, else nothing."""
    rows, capacity, outcomes = call.rows, call.capacity, call.outcomes
    attributes = rows[ATTRIBUTES * capacity + batch]
    max_timestamp = rows[MAX_TIMESTAMP * capacity + batch]
    if action & RETAIN_EMPTY == 0:
        write_outcome(outcomes, capacity, batch, DROPPED, attributes, -1, max_timestamp)
        return 0, at
    if call.out_room - at < HEADER_SIZE:
        return NO_ROOM, at
    attributes &= KNOWN_ATTRIBUTES & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    position = rows[POSITION * capacity + batch]
    write_header(call, at, position, HEADER_SIZE, attributes, -1, max_timestamp, 0)
    write_outcome(outcomes, capacity, batch, EMPTIED, attributes, -1, max_timestamp)
    return 0, at + HEADER_SIZE


def write_signed(target: Pointer, position: int, value: int, size: int) -> None:
    """A big-endian two's complement number; the caller has checked room."""
    for index in range(size):
        target[position + index] = (value >> (8 * (size - 1 - index))) & 0xFF


def write_header(
    call: RewriteCall,
    at: int,
    position: int,
    size: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
) -> None:
    """The old header with what a rewrite changes; the CRC is left for the glue to seal."""
    out = call.out
    copy_bytes(out, at, call.buffer, position, HEADER_SIZE)
    write_signed(out, at + 8, size - LOG_OVERHEAD, 4)
    write_signed(out, at + 17, 0, 4)
    write_signed(out, at + 21, attributes, 2)
    write_signed(out, at + 27, base_timestamp, 8)
    write_signed(out, at + 35, max_timestamp, 8)
    write_signed(out, at + 57, record_count, 4)


def write_outcome(
    outcomes: Pointer,
    capacity: int,
    batch: int,
    outcome: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
) -> None:
    outcomes[OUTCOME * capacity + batch] = outcome
    outcomes[OUT_ATTRIBUTES * capacity + batch] = attributes
    outcomes[OUT_BASE_TIMESTAMP * capacity + batch] = base_timestamp
    outcomes[OUT_MAX_TIMESTAMP * capacity + batch] = max_timestamp
