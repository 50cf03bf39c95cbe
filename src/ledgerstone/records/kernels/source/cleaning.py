"""Kernel source: both halves of a cleaning, batch after batch of a window in one call. Pure.

Records go through small columns that stay in the processor's cache: some batches are parsed into
them, then all their keys are hashed and their slots asked for, then all are put or judged, so that
waiting for one slot overlaps with waiting for the next.
"""

from ledgerstone.records.kernels.descriptors import CleaningCall
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
from ledgerstone.records.kernels.source.words import has_crc_instruction, i64

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


def map_batches(call: CleaningCall) -> int:
    """Puts the records of all batches up to `batch_end` that are not DISCARDed, in order.

    Stops with TABLE_FULL before the first one with a key that finds `limit` keys; the same call
    with the same columns then goes on with it."""
    state = call.state
    while True:
        status = put_rows(call, state[ROWS])
        if status != 0:
            return status
        if state[NEXT_BATCH] >= call.batch_end:
            return 0
        fault, next_batch, count = read_batches(call, state[NEXT_BATCH], call.min_offset)
        if fault != 0:
            return fault
        state[NEXT_BATCH] = next_batch
        state[ROWS] = count
        state[NEXT_ROW] = 0
        hash_rows(call, count)


def clean_batches(call: CleaningCall) -> int:
    """Judges the records of the batches from `batch_start` to `batch_end`, writes what is left.

    By `bits`, where there are any, else by the table. Rewritten payloads that were compressed come
    in the open, without a CRC. `counts` are those of `judge_record`. report: also whether CRCs were
    written."""
    at, first = 0, call.batch_start
    while first < call.batch_end:
        fault, after, count = read_batches(call, first, -(2**63))
        if fault != 0:
            return fault
        if call.bits > 0:
            find_older(call, count)
        else:
            find_superseded(call, count)
        judge_rows(call, count)
        fault, at = write_batches(call, first, after, at)
        if fault != 0:
            return fault
        first = after
    call.report[WRITTEN], call.report[SEALED] = at, has_crc_instruction()
    return 0


def put_rows(call: CleaningCall, count: int) -> int:
    """Puts the rows that are not in yet; leaves in `state` how far it came."""
    table, slots, low, high = call.table, call.slots, call.low, call.high
    offset, key_length, batch_index = call.offset, call.key_length, call.batch_index
    state, report = call.state, call.report
    size = state[KEYS]
    bits_hold = state[BITS_HOLD]
    previous = state[PREVIOUS_OFFSET]
    status = 0
    put = -1
    row = state[NEXT_ROW]
    while row < count:
        if i64(key_length[row]) >= 0:
            if size >= call.limit:
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
                    call.newest, call.first_offset, call.bits, offset[row], before - 1, previous,
                    call.rows, call.capacity, i64(batch_index[row]),
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


def find_older(call: CleaningCall, count: int) -> None:
    """Fills `keep` with 1 for each row that is superseded, by the bits."""
    newest, first_offset, bits = call.newest, call.first_offset, call.bits
    offset, superseded = call.offset, call.keep
    for row in range(count):
        superseded[row] = 1 - is_newest(newest, bits, offset[row] - first_offset)


def find_superseded(call: CleaningCall, count: int) -> None:
    """Fills `keep` with 1 for each row that is superseded, by the table."""
    table, slots, low, high = call.table, call.slots, call.low, call.high
    offset, key_length, superseded = call.offset, call.key_length, call.keep
    hash_rows(call, count)
    for row in range(count):
        superseded[row] = 0
        if i64(key_length[row]) >= 0:
            superseded[row] = is_superseded(table, slots, low[row], high[row], offset[row])


def judge_rows(call: CleaningCall, count: int) -> None:
    """Which rows stay; `keep` comes with those that are superseded."""
    key_length, value_length, offset = call.key_length, call.value_length, call.offset
    rows, capacity, batch_index = call.rows, call.capacity, call.batch_index
    rules, counts, keep = call.rules, call.counts, call.keep
    for row in range(count):
        keep[row] = judge_record(
            i64(keep[row]), i64(key_length[row]), i64(value_length[row]), offset[row], rows,
            capacity, i64(batch_index[row]), rules, counts,
        )  # fmt: skip


def write_batches(call: CleaningCall, batch_start: int, batch_end: int, at: int) -> tuple[int, int]:
    """(fault, end of what is written): what is left of batches whose records are judged."""
    capacity, outcomes = call.capacity, call.outcomes
    for batch in range(batch_start, batch_end):
        fault, next_at = rewrite_batch(call, batch, at)
        if fault != 0:
            call.report[FAULTY_BATCH] = batch
            return fault, at
        outcomes[OUT_POSITION * capacity + batch] = at
        outcomes[OUT_SIZE * capacity + batch] = next_at - at
        seal(call, batch, at, next_at)
        at = next_at
    return 0, at


def seal(call: CleaningCall, batch: int, at: int, end: int) -> None:
    """A CRC for a batch that was changed, if it is not yet to be compressed."""
    capacity, outcomes, out = call.capacity, call.outcomes, call.out
    outcome = outcomes[OUTCOME * capacity + batch]
    if has_crc_instruction() == 0 or outcome < REWRITTEN:
        return
    if outcome == REWRITTEN and (outcomes[OUT_ATTRIBUTES * capacity + batch] & CODEC_MASK) != 0:
        return
    write_signed(out, at + CRC_AT, i64(crc32c(out, at + ATTRIBUTES_AT, end)), 4)
