"""Kernel source: both halves of a cleaning, batch after batch of a window in one call. Pure.

Records go through small columns that stay in the processor's cache: some batches are parsed into
them, then all their keys are hashed and their slots asked for, then all are put or judged, so that
waiting for one slot overlaps with waiting for the next.
"""

from ledgerstone.records.kernels.source.crc import crc32c
from ledgerstone.records.kernels.source.key_offsets import (
    BAD_OFFSET,
    NO_SLOT,
    is_superseded,
    judge_record,
    put_offset,
)
from ledgerstone.records.kernels.source.newest import is_newest, note_newest
from ledgerstone.records.kernels.source.record_rows import (
    FAULTY_BATCH,
    FAULTY_POSITION,
    hash_rows,
    read_batches,
)
from ledgerstone.records.kernels.source.rewrite import (
    CODEC_MASK,
    OUT_ATTRIBUTES,
    OUT_POSITION,
    OUT_SIZE,
    OUTCOME,
    REWRITTEN,
    rewrite_batch,
    write_signed,
)
from ledgerstone.records.kernels.source.words import Pointer, has_crc_instruction, i64

TABLE_FULL = 120

ATTRIBUTES_AT = 21
CRC_AT = 17

# Fields of `state`, which a full table hands back and a larger one goes on from.
KEYS = 0  # in the table
NEXT_BATCH = 1
ROWS = 2  # in the columns
NEXT_ROW = 3
PUT_BATCH = 4  # of the last record that was put, -1: none yet
PUT_OFFSET = 5
# Through all windows of a cleaning.
BITS_HOLD = 6  # whether `newest` tells what is superseded
PREVIOUS_OFFSET = 7  # that was put

# Fields of a report, beside those of a fault.
WRITTEN = 0
SEALED = 4


def map_batches(
    buffer: Pointer,
    split: int,
    arena: Pointer,
    rows: Pointer,
    capacity: int,
    batch_end: int,
    actions: Pointer,
    min_offset: int,
    k0: int,
    k1: int,
    table: Pointer,
    slots: int,
    limit: int,
    newest: Pointer,
    first_offset: int,
    bits: int,
    offset: Pointer,
    timestamp: Pointer,
    record_end: Pointer,
    key_start: Pointer,
    key_length: Pointer,
    value_length: Pointer,
    batch_index: Pointer,
    low: Pointer,
    high: Pointer,
    lanes: Pointer,
    room: int,
    state: Pointer,
    report: Pointer,
) -> int:
    """Puts the records of all batches up to `batch_end` that are not DISCARDed, in order.

    Stops with TABLE_FULL before the first one with a key that finds `limit` keys; the same call
    with the same columns then goes on with it. report: with a fault batch, record, position.
    """
    while True:
        count = state[ROWS]
        status = put_rows(
            table, slots, limit, newest, first_offset, bits, offset, key_length, rows, capacity,
            batch_index, low, high, count, state, report,
        )  # fmt: skip
        if status != 0:
            return status
        if state[NEXT_BATCH] >= batch_end:
            return 0
        fault, next_batch, count = read_batches(
            buffer, split, arena, rows, capacity, state[NEXT_BATCH], batch_end, actions, min_offset,
            offset, timestamp, record_end, key_start, key_length, value_length, batch_index, room,
            report,
        )  # fmt: skip
        if fault != 0:
            return fault
        state[NEXT_BATCH] = next_batch
        state[ROWS] = count
        state[NEXT_ROW] = 0
        hash_rows(
            buffer, split, arena, key_start, key_length, count, k0, k1, low, high, lanes, table,
            slots,
        )  # fmt: skip


def clean_batches(
    buffer: Pointer,
    split: int,
    arena: Pointer,
    rows: Pointer,
    capacity: int,
    batch_start: int,
    batch_end: int,
    actions: Pointer,
    k0: int,
    k1: int,
    table: Pointer,
    slots: int,
    newest: Pointer,
    first_offset: int,
    bits: int,
    rules: Pointer,
    horizon: int,
    offset: Pointer,
    timestamp: Pointer,
    record_end: Pointer,
    key_start: Pointer,
    key_length: Pointer,
    value_length: Pointer,
    batch_index: Pointer,
    low: Pointer,
    high: Pointer,
    lanes: Pointer,
    keep: Pointer,
    room: int,
    out: Pointer,
    out_room: int,
    outcomes: Pointer,
    counts: Pointer,
    report: Pointer,
) -> int:
    """Judges the records of the batches from `batch_start` to `batch_end`, writes what is left.

    By `bits`, where there are any, else by the table. Rewritten payloads that were compressed come
    in the open, without a CRC. `counts` are those of `judge_record`. report: bytes written, whether
    CRCs were; with a fault batch, record, position."""
    at, first = 0, batch_start
    while first < batch_end:
        fault, after, count = read_batches(
            buffer, split, arena, rows, capacity, first, batch_end, actions, -(2**63),
            offset, timestamp, record_end, key_start, key_length, value_length, batch_index, room,
            report,
        )  # fmt: skip
        if fault != 0:
            return fault
        if bits > 0:
            find_older(newest, first_offset, bits, offset, keep, count)
        else:
            find_superseded(
                buffer, split, arena, key_start, key_length, offset, count, k0, k1, low, high,
                lanes, table, slots, keep,
            )  # fmt: skip
        judge_rows(
            key_length, value_length, offset, rows, capacity, batch_index, rules, counts, keep,
            count,
        )  # fmt: skip
        fault, at = write_batches(
            buffer, split, arena, rows, capacity, first, after, actions, timestamp, record_end,
            value_length, keep, horizon, out, at, out_room, outcomes, report,
        )  # fmt: skip
        if fault != 0:
            return fault
        first = after
    report[WRITTEN], report[SEALED] = at, has_crc_instruction()
    return 0


def put_rows(
    table: Pointer,
    slots: int,
    limit: int,
    newest: Pointer,
    first_offset: int,
    bits: int,
    offset: Pointer,
    key_length: Pointer,
    rows: Pointer,
    capacity: int,
    batch_index: Pointer,
    low: Pointer,
    high: Pointer,
    count: int,
    state: Pointer,
    report: Pointer,
) -> int:
    """Puts the rows that are not in yet; leaves in `state` how far it came."""
    size = state[KEYS]
    bits_hold = state[BITS_HOLD]
    previous = state[PREVIOUS_OFFSET]
    status = 0
    put = -1
    row = state[NEXT_ROW]
    while row < count:
        if i64(key_length[row]) >= 0:
            if size >= limit:
                status = TABLE_FULL
                break
            if offset[row] < 0:
                status = BAD_OFFSET
                break
            before = put_offset(table, slots, low[row], high[row], offset[row])
            if before < 0:
                status = NO_SLOT
                break
            if before == 0:
                size += 1
            if bits_hold != 0:
                bits_hold = note_newest(
                    newest, first_offset, bits, offset[row], before - 1, previous, rows, capacity,
                    i64(batch_index[row]),
                )  # fmt: skip
            previous = offset[row]
            put = row
        else:
            # It has a bit like one that is superseded, and goes for another reason.
            bits_hold = 0
        row += 1
    state[KEYS] = size
    state[NEXT_ROW] = row
    state[BITS_HOLD] = bits_hold
    state[PREVIOUS_OFFSET] = previous
    if put >= 0:
        state[PUT_BATCH] = i64(batch_index[put])
        state[PUT_OFFSET] = offset[put]
    if status != 0:
        report[FAULTY_BATCH] = i64(batch_index[row])
        report[FAULTY_POSITION] = offset[row]
    return status


def find_older(
    newest: Pointer, first_offset: int, bits: int, offset: Pointer, superseded: Pointer, count: int
) -> None:
    for row in range(count):
        superseded[row] = 1 - is_newest(newest, bits, offset[row] - first_offset)


def find_superseded(
    buffer: Pointer,
    split: int,
    arena: Pointer,
    key_start: Pointer,
    key_length: Pointer,
    offset: Pointer,
    count: int,
    k0: int,
    k1: int,
    low: Pointer,
    high: Pointer,
    lanes: Pointer,
    table: Pointer,
    slots: int,
    superseded: Pointer,
) -> None:
    hash_rows(
        buffer, split, arena, key_start, key_length, count, k0, k1, low, high, lanes, table, slots
    )
    for row in range(count):
        superseded[row] = 0
        if i64(key_length[row]) >= 0:
            superseded[row] = is_superseded(table, slots, low[row], high[row], offset[row])


def judge_rows(
    key_length: Pointer,
    value_length: Pointer,
    offset: Pointer,
    rows: Pointer,
    capacity: int,
    batch_index: Pointer,
    rules: Pointer,
    counts: Pointer,
    keep: Pointer,
    count: int,
) -> None:
    """Which rows stay; `keep` comes with those that are superseded."""
    for row in range(count):
        keep[row] = judge_record(
            i64(keep[row]), i64(key_length[row]), i64(value_length[row]), offset[row], rows,
            capacity, i64(batch_index[row]), rules, counts,
        )  # fmt: skip


def write_batches(
    buffer: Pointer,
    split: int,
    arena: Pointer,
    rows: Pointer,
    capacity: int,
    batch_start: int,
    batch_end: int,
    actions: Pointer,
    timestamp: Pointer,
    record_end: Pointer,
    value_length: Pointer,
    keep: Pointer,
    horizon: int,
    out: Pointer,
    at: int,
    out_room: int,
    outcomes: Pointer,
    report: Pointer,
) -> tuple[int, int]:
    """(fault, end of what is written): what is left of batches whose records are judged."""
    for batch in range(batch_start, batch_end):
        fault, next_at = rewrite_batch(
            buffer, split, arena, rows, capacity, batch, timestamp, record_end, value_length,
            keep, i64(actions[batch]), horizon, out, at, out_room, outcomes,
        )  # fmt: skip
        if fault != 0:
            report[FAULTY_BATCH] = batch
            return fault, at
        outcomes[OUT_POSITION * capacity + batch] = at
        outcomes[OUT_SIZE * capacity + batch] = next_at - at
        seal(out, at, next_at, outcomes, capacity, batch)
        at = next_at
    return 0, at


def seal(out: Pointer, at: int, end: int, outcomes: Pointer, capacity: int, batch: int) -> None:
    """A CRC for a batch that was changed, if it is not yet to be compressed."""
    outcome = outcomes[OUTCOME * capacity + batch]
    if has_crc_instruction() == 0 or outcome < REWRITTEN:
        return
    if outcome == REWRITTEN and (outcomes[OUT_ATTRIBUTES * capacity + batch] & CODEC_MASK) != 0:
        return
    write_signed(out, at + CRC_AT, i64(crc32c(out, at + ATTRIBUTES_AT, end)), 4)
