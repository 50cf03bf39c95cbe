"""Kernel source: the last offset of each key in a fixed table, and records judged by it. Pure.

The table is open addressing over slots of three words: low and high word of the key's hash, and
the offset plus one, so that memory full of zeros is an empty table. Nothing is ever removed. A
search starts where the hash says and goes on slot by slot; neighbours share cache lines, so the
steps after the first cost little.
"""

from ledgerstone.records.kernels.source.words import Pointer, i64, u64

SLOT_WORDS = 3
HIGH_WORD = 1
OFFSET_WORD = 2

FULL = 1
BAD_OFFSET = 110
NO_SLOT = 111
BAD_BATCH_INDEX = 112

NOT_FOUND = -1
# A batch without a delete horizon: its tombstones stay whatever the clock says.
NO_HORIZON = 9223372036854775807

# Fields of `rules`.
LATEST_OFFSET = 0
NOW_MS = 1
HELD_FROM_OFFSET = 2
NEW_HORIZON = 3

# Fields of a judgement's report.
KEPT = 0
SUPERSEDED = 1
EXPIRED = 2
KEYLESS = 3
TOMBSTONES_KEPT = 4
TOMBSTONES_STAMPED = 5
TOMBSTONES_HELD = 6
EARLIEST_HORIZON = 7


def find_place(table: Pointer, slots: int, low: int, high: int) -> int:
    """Index of the first word of the key's slot, or of the empty one it would take; -1: neither."""
    # The top half of the low word scaled to the slots: no division, and the bits are random.
    slot = i64(u64(u64(low >> u64(32)) * u64(slots)) >> u64(32))
    for _ in range(slots):
        at = slot * SLOT_WORDS
        if table[at + OFFSET_WORD] == u64(0):
            return at
        if table[at] == low and table[at + HIGH_WORD] == high:
            return at
        slot += 1
        if slot == slots:
            slot = 0
    return NOT_FOUND


def put_offsets(
    table: Pointer,
    slots: int,
    limit: int,
    low: Pointer,
    high: Pointer,
    key_length: Pointer,
    offset: Pointer,
    count: int,
    state: Pointer,
) -> int:
    """Puts records in order; stops with FULL at the first keyed one once `limit` keys are in.

    It stops even if that key is in the table already: what the table says then holds for a prefix
    of the log and for nothing behind it. state: keys in the table, records taken.
    """
    size = state[0]
    for index in range(count):
        state[1] = index
        if i64(key_length[index]) < 0:
            continue
        if size >= limit:
            state[0] = size
            return FULL
        if offset[index] < 0:
            return BAD_OFFSET
        at = find_place(table, slots, low[index], high[index])
        if at < 0:
            return NO_SLOT
        if table[at + OFFSET_WORD] == u64(0):
            size += 1
            table[at] = low[index]
            table[at + HIGH_WORD] = high[index]
        table[at + OFFSET_WORD] = u64(offset[index] + 1)
    state[0] = size
    state[1] = count
    return 0


def move_offsets(table: Pointer, slots: int, larger: Pointer, larger_slots: int) -> int:
    """Puts everything from one table into an empty one that has room for it."""
    for slot in range(slots):
        at = slot * SLOT_WORDS
        if table[at + OFFSET_WORD] == u64(0):
            continue
        to = find_place(larger, larger_slots, table[at], table[at + HIGH_WORD])
        if to < 0:
            return NO_SLOT
        larger[to] = table[at]
        larger[to + HIGH_WORD] = table[at + HIGH_WORD]
        larger[to + OFFSET_WORD] = table[at + OFFSET_WORD]
    return 0


def find_offsets(
    table: Pointer, slots: int, low: Pointer, high: Pointer, count: int, found: Pointer
) -> int:
    """The last offset of each key, -1 for one that was never put."""
    for index in range(count):
        at = find_place(table, slots, low[index], high[index])
        found[index] = NOT_FOUND if at < 0 else i64(table[at + OFFSET_WORD]) - 1
    return 0


def judge_records(
    table: Pointer,
    slots: int,
    low: Pointer,
    high: Pointer,
    key_length: Pointer,
    value_length: Pointer,
    offset: Pointer,
    batch_index: Pointer,
    count: int,
    horizon: Pointer,
    is_control: Pointer,
    batch_count: int,
    rules: Pointer,
    keep: Pointer,
    report: Pointer,
) -> int:
    """A keep flag for each record, and how many there were of each kind.

    `report` comes with zeros, and with NO_HORIZON for the earliest horizon. The rules, and why they
    are so, are in cleaner/README.md.
    """
    for index in range(count):
        batch = i64(batch_index[index])
        if batch < 0 or batch >= batch_count:
            return BAD_BATCH_INDEX
        verdict = KEPT
        if i64(is_control[batch]) == 0:
            newest = 1
            if offset[index] <= rules[LATEST_OFFSET]:
                if i64(key_length[index]) < 0:
                    verdict = KEYLESS
                else:
                    at = find_place(table, slots, low[index], high[index])
                    if at >= 0 and offset[index] < i64(table[at + OFFSET_WORD]) - 1:
                        verdict = SUPERSEDED
            else:
                newest = 0
            if verdict == KEPT and i64(value_length[index]) < 0:
                verdict = judge_tombstone(offset[index], newest, horizon[batch], rules, report)
        keep[index] = 1 if verdict == KEPT else 0
        report[verdict] = report[verdict] + 1
    return 0


def judge_tombstone(offset: int, newest: int, horizon: int, rules: Pointer, report: Pointer) -> int:
    """KEPT or EXPIRED. `newest` is 0 where the table says nothing about the record's key."""
    if newest != 0 and rules[NOW_MS] >= horizon:
        if offset < rules[HELD_FROM_OFFSET]:
            return EXPIRED
        report[TOMBSTONES_HELD] = report[TOMBSTONES_HELD] + 1
        report[TOMBSTONES_KEPT] = report[TOMBSTONES_KEPT] + 1
        return KEPT
    report[TOMBSTONES_KEPT] = report[TOMBSTONES_KEPT] + 1
    due = horizon
    if horizon == NO_HORIZON:
        report[TOMBSTONES_STAMPED] = report[TOMBSTONES_STAMPED] + 1
        due = rules[NEW_HORIZON]
    report[EARLIEST_HORIZON] = min(report[EARLIEST_HORIZON], due)
    return KEPT
