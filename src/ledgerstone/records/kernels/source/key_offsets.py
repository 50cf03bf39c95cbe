"""Kernel source: the last offset of each key in a fixed table, and records judged by it. Pure.

The table is open addressing over slots of three words: low and high word of the key's hash, and
the offset plus one, so that memory full of zeros is an empty table. Nothing is ever removed. A
search starts where the hash says and goes on slot by slot; neighbours share cache lines, so the
steps after the first cost little.
"""

from ledgerstone.records.kernels.source.walk import ATTRIBUTES, BASE_TIMESTAMP
from ledgerstone.records.kernels.source.words import Pointer, i64, u64

SLOT_WORDS = 3
HIGH_WORD = 1
OFFSET_WORD = 2

FULL = 1
BAD_OFFSET = 110
NO_SLOT = 111

# The first slots of a table that grows in place, which `spread_offsets` sets aside.
STASH_SLOTS = 4096

NOT_FOUND = -1
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40
# A batch without a delete horizon: its tombstones stay whatever the clock says.
NO_HORIZON = 9223372036854775807

# Fields of `rules`.
LATEST_OFFSET = 0
NOW_MS = 1
HELD_FROM_OFFSET = 2
NEW_HORIZON = 3
HELD_AFTER_MS = 4
REMOVABLE_TO = 5

# Fields of a judgement's counts.
KEPT = 0
SUPERSEDED = 1
EXPIRED = 2
KEYLESS = 3
TOMBSTONES_KEPT = 4
TOMBSTONES_STAMPED = 5
TOMBSTONES_HELD = 6
EARLIEST_HORIZON = 7
REMOVED_FIRST = 8
REMOVED_LAST = 9
# How many ranges of kept tombstones follow, three fields each: first offset, last, horizon.
RANGES = 10
FIRST_RANGE = 11
RANGE_FIELDS = 3
MAX_RANGES = 32


def first_slot(slots: int, low: int) -> int:
    """Where the search for a key starts."""
    # The top half of the low word scaled to the slots: no division, and the bits are random.
    return i64(u64(u64(low >> u64(32)) * u64(slots)) >> u64(32))


def find_place(table: Pointer, slots: int, low: int, high: int) -> int:
    """Index of the first word of the key's slot, or of the empty one it would take; -1: neither."""
    slot = first_slot(slots, low)
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


def put_offset(table: Pointer, slots: int, low: int, high: int, offset: int) -> int:
    """The offset plus one that the key had before, 0: it is new; -1: the table has no slot left."""
    at = find_place(table, slots, low, high)
    if at < 0:
        return -1
    before = i64(table[at + OFFSET_WORD])
    if before == 0:
        table[at] = low
        table[at + HIGH_WORD] = high
    table[at + OFFSET_WORD] = u64(offset + 1)
    return before


def move_offsets(table: Pointer, slots: int, larger: Pointer, larger_slots: int) -> int:
    """Puts everything from one table into an empty one that has room for it."""
    return move_slots(table, slots, larger, larger_slots)


def move_slots(table: Pointer, slots: int, larger: Pointer, larger_slots: int) -> int:
    for slot in range(slots):
        at = slot * SLOT_WORDS
        if table[at + OFFSET_WORD] == u64(0):
            continue
        to = find_place(larger, larger_slots, table[at], table[at + HIGH_WORD])
        if to < 0:
            return NO_SLOT
        copy_slot(larger, to, table, at)
    return 0


def spread_offsets(table: Pointer, slots: int, larger_slots: int, stash: Pointer) -> int:
    """Makes a table of `slots` one of `larger_slots`, at least twice as many, in its own memory.

    Slots are in the order of hashes, but for the few that had to go on from where their search
    starts. From the last down, then, each moves up, to where nothing waits to be moved. That does
    not hold for the first ones, nor for those whose search goes on there from the end: so the first
    STASH_SLOTS are set aside and go in last.
    """
    set_aside = min(slots, STASH_SLOTS)
    stashed = 0
    for slot in range(set_aside):
        at = slot * SLOT_WORDS
        if table[at + OFFSET_WORD] != u64(0):
            copy_slot(stash, stashed * SLOT_WORDS, table, at)
            table[at + OFFSET_WORD] = u64(0)
            stashed += 1
    for slot in range(slots - 1, set_aside - 1, -1):
        at = slot * SLOT_WORDS
        if table[at + OFFSET_WORD] == u64(0):
            continue
        low = table[at]
        high = table[at + HIGH_WORD]
        offset = table[at + OFFSET_WORD]
        table[at + OFFSET_WORD] = u64(0)
        start = first_slot(larger_slots, low)
        to = find_place(table, larger_slots, low, high)
        # A search over slots that still have to move would no longer find it when they have.
        if start < slot or to < 0 or set_aside * SLOT_WORDS <= to < start * SLOT_WORDS:
            return NO_SLOT
        table[to] = low
        table[to + HIGH_WORD] = high
        table[to + OFFSET_WORD] = offset
    return move_slots(stash, stashed, table, larger_slots)


def copy_slot(target: Pointer, to: int, source: Pointer, at: int) -> None:
    target[to] = source[at]
    target[to + HIGH_WORD] = source[at + HIGH_WORD]
    target[to + OFFSET_WORD] = source[at + OFFSET_WORD]


def is_superseded(table: Pointer, slots: int, low: int, high: int, offset: int) -> int:
    """Whether the table has the key with a later offset."""
    at = find_place(table, slots, low, high)
    return 1 if at >= 0 and offset < i64(table[at + OFFSET_WORD]) - 1 else 0


def judge_record(
    superseded: int,
    key_length: int,
    value_length: int,
    offset: int,
    rows: Pointer,
    capacity: int,
    batch: int,
    rules: Pointer,
    counts: Pointer,
) -> int:
    """1: the record stays, 0: it goes; counted by kind.

    `superseded` matters for a record with a key up to LATEST_OFFSET. `counts` come with zeros,
    NO_HORIZON for the earliest horizon and for REMOVED_FIRST, -1 for REMOVED_LAST. The rules, and
    why they are so, are in cleaner/README.md.
    """
    verdict = KEPT
    attributes = rows[ATTRIBUTES * capacity + batch]
    if attributes & CONTROL_FLAG == 0:
        newest = 1
        if offset <= rules[LATEST_OFFSET]:
            if key_length < 0:
                verdict = KEYLESS
            elif superseded != 0:
                verdict = SUPERSEDED
        else:
            newest = 0
        if verdict == KEPT and value_length < 0:
            horizon = NO_HORIZON
            if attributes & DELETE_HORIZON_FLAG != 0:
                horizon = rows[BASE_TIMESTAMP * capacity + batch]
            verdict = judge_tombstone(offset, newest, horizon, rules, counts)
    counts[verdict] = counts[verdict] + 1
    return 1 if verdict == KEPT else 0


def judge_tombstone(offset: int, newest: int, horizon: int, rules: Pointer, counts: Pointer) -> int:
    """KEPT or EXPIRED. `newest` is 0 where the table says nothing about the record's key."""
    if newest != 0 and rules[NOW_MS] >= horizon:
        seen = offset < rules[HELD_FROM_OFFSET] or horizon <= rules[HELD_AFTER_MS]
        if seen and offset < rules[REMOVABLE_TO]:
            counts[REMOVED_FIRST] = min(counts[REMOVED_FIRST], offset)
            counts[REMOVED_LAST] = max(counts[REMOVED_LAST], offset)
            return EXPIRED
        counts[TOMBSTONES_HELD] = counts[TOMBSTONES_HELD] + 1
        counts[TOMBSTONES_KEPT] = counts[TOMBSTONES_KEPT] + 1
        note_range(offset, horizon, counts)
        return KEPT
    counts[TOMBSTONES_KEPT] = counts[TOMBSTONES_KEPT] + 1
    due = horizon
    if horizon == NO_HORIZON:
        counts[TOMBSTONES_STAMPED] = counts[TOMBSTONES_STAMPED] + 1
        due = rules[NEW_HORIZON]
    counts[EARLIEST_HORIZON] = min(counts[EARLIEST_HORIZON], due)
    note_range(offset, due, counts)
    return KEPT


def note_range(offset: int, horizon: int, counts: Pointer) -> None:
    """Where kept tombstones lie: neighbours with one horizon are one range, and so is all that
    comes once there are MAX_RANGES."""
    known = counts[RANGES]
    at = FIRST_RANGE + (known - 1) * RANGE_FIELDS
    if known > 0 and (counts[at + 2] == horizon or known == MAX_RANGES):
        counts[at] = min(counts[at], offset)
        counts[at + 1] = max(counts[at + 1], offset)
        counts[at + 2] = min(counts[at + 2], horizon)
        return
    counts[at + RANGE_FIELDS] = offset
    counts[at + RANGE_FIELDS + 1] = offset
    counts[at + RANGE_FIELDS + 2] = horizon
    counts[RANGES] = known + 1
