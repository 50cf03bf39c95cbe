"""Kernel source: batches folded to the latest record of each key, in one call for a window. Pure.

Records go through columns of `room` places that stay in the first cache: some are parsed into them,
their keys are hashed and their slots and facts asked for, then each becomes its key's latest, and
the contents of those that still are get hashed. A mark is the offset of the key's latest record,
`~offset` where that is a tombstone, NO_RECORD where there is none. Batches are whole and payload
spans lie in the window; the glue has seen to that.
"""

from ledgerstone.records.kernels.descriptors import FoldCall
from ledgerstone.records.kernels.source.contents import hash_pieces, hash_spread, length_size
from ledgerstone.records.kernels.source.crc import crc32c
from ledgerstone.records.kernels.source.key_facts import (
    CONTENT_HIGH,
    CONTENT_LOW,
    KEY_HIGH,
    MARK,
    NO_ROOM,
    TAG_MASK,
    ask_for_facts,
    number_in,
    slot_of_key,
)
from ledgerstone.records.kernels.source.key_offsets import first_slot
from ledgerstone.records.kernels.source.record import (
    TRAILING_BYTES,
    read_record_body,
    read_record_head,
)
from ledgerstone.records.kernels.source.walk import (
    BASE_OFFSET,
    CRC,
    LAST_OFFSET,
    PAYLOAD_END,
    PAYLOAD_START,
    POSITION,
    RECORD_COUNT,
    SIZE,
)
from ledgerstone.records.kernels.source.words import (
    Pointer,
    has_crc_instruction,
    i64,
    prefetch,
    u64,
)

NO_RECORD = -9223372036854775808
ATTRIBUTES_AT = 21
# Where a record ends is known once it is read, so the processor has to be told what comes next.
READ_AHEAD = 1024

# In place of the length of a content: there is none, or its lengths took more than they need.
NO_VALUE = -1
SPREAD = -2

KEYS_FULL = 122
BAD_ORDER = 123
BAD_CRC = 124

# Fields of `state`, which full tables hand back and larger ones go on from.
KEYS = 0
NEXT_BATCH = 1
NEXT_RECORD = 2  # of that batch; 0: it has not been begun
NEXT_POSITION = 3
ROWS = 4  # in the columns, all of them from one source
NEXT_ROW = 5
IN_ARENA = 6
LAST_SEEN = 7  # offset of the last record, wherever it lies; -1: none yet
RECORDS = 8  # from here on: counts
KEYLESS = 9
TOMBSTONES = 10
DELETES_APPLIED = 11
RECREATED = 12
STATE_FIELDS = 13

# Fields of a report.
FAULTY_BATCH = 0
FAULTY_RECORD = 1
FAULT_DETAIL = 2  # position, offset or CRC
CRCS_CHECKED = 3  # which only the instruction does
REPORT_FIELDS = 4


def fold_batches(call: FoldCall) -> int:
    """Folds the records in [start_offset, end_offset) of all batches up to `batch_end` that are not
    to be skipped.

    Stops with KEYS_FULL before the first new key that finds `limit` keys; the same call with the
    same columns then goes on with it."""
    state = call.state
    call.report[CRCS_CHECKED] = has_crc_instruction()
    while True:
        source, source_end = call.buffer, call.split
        if state[IN_ARENA] != 0:
            source, source_end = call.arena, call.end - call.split
        status = settle_rows(call)
        if status != 0:
            return status
        if call.stride > CONTENT_HIGH:
            hash_latest(call, source, source_end, state[ROWS])
        state[ROWS] = 0
        if state[NEXT_BATCH] >= call.batch_end:
            return 0
        status = read_rows(call)
        if status != 0:
            return status
        source = call.arena if state[IN_ARENA] != 0 else call.buffer
        hash_pieces(
            source, call.key_start, call.key_length, state[ROWS], call.k0, call.k1, call.low,
            call.high, call.lanes,
        )  # fmt: skip


def read_rows(call: FoldCall) -> int:
    """Fills the columns with records that have a key, up to a batch from the other source."""
    rows, capacity, batch_end = call.rows, call.capacity, call.batch_end
    state, report = call.state, call.report
    count = 0
    fault = 0
    batch = state[NEXT_BATCH]
    while batch < batch_end and count < call.room:
        report[FAULTY_BATCH] = batch
        if i64(call.skip[batch]) != 0:
            batch += 1
            continue
        in_arena = 1 if rows[PAYLOAD_START * capacity + batch] >= call.split else 0
        if count > 0 and in_arena != state[IN_ARENA]:
            break
        state[IN_ARENA] = in_arena
        if state[NEXT_RECORD] == 0 and call.checks_crc != 0 and has_crc_instruction() != 0:
            position = rows[POSITION * capacity + batch]
            batch_stop = position + rows[SIZE * capacity + batch]
            found = i64(crc32c(call.buffer, position + ATTRIBUTES_AT, batch_stop))
            if found != rows[CRC * capacity + batch]:
                report[FAULT_DETAIL] = found
                return BAD_CRC
        source, shift = call.buffer, 0
        if in_arena != 0:
            source, shift = call.arena, call.split
        fault, count = read_some(call, source, shift, batch, count)
        if fault != 0:
            return fault
        if state[NEXT_RECORD] == 0:
            batch += 1
    state[NEXT_BATCH] = batch
    state[ROWS] = count
    state[NEXT_ROW] = 0
    return 0


def read_some(
    call: FoldCall, source: Pointer, shift: int, batch: int, count: int
) -> tuple[int, int]:
    """(fault, rows in the columns): one batch from its next record on, as far as there is room."""
    rows, capacity, room = call.rows, call.capacity, call.room
    start_offset, end_offset = call.start_offset, call.end_offset
    offset, key_start, key_length = call.offset, call.key_start, call.key_length
    content_start, content_length = call.content_start, call.content_length
    state, report = call.state, call.report
    base_offset = rows[BASE_OFFSET * capacity + batch]
    last_offset = rows[LAST_OFFSET * capacity + batch]
    record_count = rows[RECORD_COUNT * capacity + batch]
    stop = rows[PAYLOAD_END * capacity + batch] - shift
    index = state[NEXT_RECORD]
    position = state[NEXT_POSITION]
    if index == 0:
        position = rows[PAYLOAD_START * capacity + batch] - shift
    # What comes next must lie behind both.
    before = max(state[LAST_SEEN], base_offset - 1)
    fault = 0
    while index < record_count and count < room:
        fault, position, record_end, _, _, offset_delta = read_record_head(source, position, stop)
        if fault != 0:
            break
        body = position
        fault, key_at, key_size, value_at, value_size, _, _ = read_record_body(
            source, position, record_end
        )
        if fault != 0:
            position = key_at
            break
        position = record_end
        prefetch(source, position + READ_AHEAD)
        here = i64(base_offset + offset_delta)
        if here <= before or here > last_offset:
            report[FAULTY_RECORD] = index
            report[FAULT_DETAIL] = here
            return BAD_ORDER, count
        before = here
        index += 1
        if here < start_offset or here >= end_offset:
            continue
        state[RECORDS] = state[RECORDS] + 1
        if key_size < 0:
            state[KEYLESS] = state[KEYLESS] + 1
            continue
        offset[count] = here
        key_start[count] = key_at
        key_length[count] = key_size
        content_start[count] = body
        content_length[count] = content_size(body, key_size, value_at, value_size)
        count += 1
    if fault == 0 and index == record_count and position != stop:
        fault = TRAILING_BYTES
    report[FAULTY_RECORD] = index
    report[FAULT_DETAIL] = position + shift
    state[LAST_SEEN] = before
    state[NEXT_RECORD] = index if index < record_count else 0
    state[NEXT_POSITION] = position
    return fault, count


def content_size(body: int, key_size: int, value_at: int, value_size: int) -> int:
    """Bytes from the length of the key to the end of the value; NO_VALUE or SPREAD."""
    if value_size < 0:
        return NO_VALUE
    size = value_at + value_size - body
    if size != length_size(key_size) + key_size + length_size(value_size) + value_size:
        return SPREAD
    return size


def settle_rows(call: FoldCall) -> int:
    """Lets each row be its key's latest, in order, and counts what that turns."""
    table, slots, low, high = call.table, call.slots, call.low, call.high
    facts, stride, number, state = call.facts, call.stride, call.number, call.state
    offset, content_length = call.offset, call.content_length
    size = state[KEYS]
    for index in range(state[NEXT_ROW], state[ROWS]):
        prefetch(table, first_slot(slots, low[index]))
    for index in range(state[NEXT_ROW], state[ROWS]):
        number[index] = ask_for_facts(table, slots, facts, size, stride, low[index])
    for index in range(state[NEXT_ROW], state[ROWS]):
        slot = number[index]
        if slot >= 0:
            slot = slot_of_key(table, slots, slot, facts, size, stride, low[index], high[index])
        if slot < 0:
            return NO_ROOM
        which = number_in(table[slot])
        if which < 0:
            if size >= call.limit:
                state[NEXT_ROW] = index
                return KEYS_FULL
            which = size
            size += 1
            state[KEYS] = size
            table[slot] = u64(u64(low[index] & u64(TAG_MASK)) | u64(size))
            facts[which * stride] = low[index]
            facts[which * stride + KEY_HIGH] = high[index]
            facts[which * stride + MARK] = u64(NO_RECORD)
        number[index] = which
        # Its content may lie in the next cache line, and is written later.
        prefetch(facts, which * stride + stride - 1)
        at = which * stride + MARK
        before = i64(facts[at])
        if i64(content_length[index]) == NO_VALUE:
            state[TOMBSTONES] = state[TOMBSTONES] + 1
            if before >= 0:
                state[DELETES_APPLIED] = state[DELETES_APPLIED] + 1
            facts[at] = u64(~offset[index])
        else:
            if before < 0 and before != NO_RECORD:
                state[RECREATED] = state[RECREATED] + 1
            facts[at] = u64(offset[index])
    state[NEXT_ROW] = state[ROWS]
    return 0


def hash_latest(call: FoldCall, source: Pointer, source_end: int, count: int) -> None:
    """Hashes key and value, with their lengths, of each row that is its key's latest and live.

    They lie side by side in a record, so they are hashed where they are.
    """
    facts, stride, offset, number = call.facts, call.stride, call.offset, call.number
    content_start, content_length = call.content_start, call.content_length
    c0, c1, low, high = call.c0, call.c1, call.low, call.high
    kept = 0
    for index in range(count):
        at = number[index] * stride
        if i64(facts[at + MARK]) != offset[index]:
            continue
        if i64(content_length[index]) == SPREAD:
            facts[at + CONTENT_LOW], facts[at + CONTENT_HIGH] = hash_spread(
                source, content_start[index], source_end, c0, c1
            )
            continue
        content_start[kept] = content_start[index]
        content_length[kept] = content_length[index]
        number[kept] = number[index]
        kept += 1
    hash_pieces(source, content_start, content_length, kept, c0, c1, low, high, call.lanes)
    for index in range(kept):
        at = number[index] * stride
        facts[at + CONTENT_LOW] = low[index]
        facts[at + CONTENT_HIGH] = high[index]
