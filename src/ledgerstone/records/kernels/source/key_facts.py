"""Kernel source: a table of key numbers, one word a slot, and the facts of keys by number. Pure.

A slot holds the upper half of the low word of a key's hash and the key's number plus one, so that
memory full of zeros is an empty table. `stride` words are known of each key, its hash first. Slots
are chosen by the half that they hold: a table grows without a look at the facts, and in order.
"""

from ledgerstone.records.kernels.descriptors import FindCall
from ledgerstone.records.kernels.source.key_offsets import first_slot
from ledgerstone.records.kernels.source.words import Pointer, i64, prefetch, u64

# Words of a key's facts. The last two are there only where contents are hashed.
KEY_LOW = 0
KEY_HIGH = 1
MARK = 2
CONTENT_LOW = 3
CONTENT_HIGH = 4

TAG_MASK = 0xFFFFFFFF00000000
NUMBER_MASK = 0xFFFFFFFF

NO_ROOM = 121
# How many keys ahead `find_keys` asks for a slot; for the facts it leads to, half as many.
AHEAD = 16


def number_in(entry: int) -> int:
    """The number of the key in a slot; -1 where the slot is empty."""
    return i64(entry & u64(NUMBER_MASK)) - 1


def slot_by_tag(table: Pointer, slots: int, slot: int, low: int) -> int:
    """From `slot` on, the first that is empty or has the key's half of a word; -1: none."""
    tag = u64(low & u64(TAG_MASK))
    for _ in range(slots):
        entry = table[slot]
        if entry == u64(0) or u64(entry & u64(TAG_MASK)) == tag:
            return slot
        slot += 1
        if slot == slots:
            slot = 0
    return -1


def slot_of_key(
    table: Pointer,
    slots: int,
    slot: int,
    facts: Pointer,
    size: int,
    stride: int,
    low: int,
    high: int,
) -> int:
    """The slot the key has, or the empty one it would take, from `slot` on; -1: neither."""
    for _ in range(slots):
        slot = slot_by_tag(table, slots, slot, low)
        if slot < 0:
            return -1
        number = number_in(table[slot])
        if number < 0:
            return slot
        at = number * stride
        if number < size and facts[at] == low and facts[at + KEY_HIGH] == high:
            return slot
        slot += 1
        if slot == slots:
            slot = 0
    return -1


def ask_for_facts(
    table: Pointer, slots: int, facts: Pointer, size: int, stride: int, low: int
) -> int:
    """`slot_by_tag` from the first slot on; has what is known of the key there brought near."""
    slot = slot_by_tag(table, slots, first_slot(slots, low), low)
    if slot >= 0:
        number = number_in(table[slot])
        if 0 <= number < size:
            prefetch(facts, number * stride + KEY_HIGH)
    return slot


def move_keys(table: Pointer, slots: int, larger: Pointer, larger_slots: int) -> int:
    """Puts everything from one table into an empty one that has room for it."""
    for slot in range(slots):
        entry = table[slot]
        if entry == u64(0):
            continue
        to = first_slot(larger_slots, entry)
        tried = 0
        while tried < larger_slots and larger[to] != u64(0):
            tried += 1
            to += 1
            if to == larger_slots:
                to = 0
        if tried == larger_slots:
            return NO_ROOM
        larger[to] = entry
    return 0


def find_keys(call: FindCall) -> int:
    """The number of each key, -1 for one that is not in the table."""
    table, slots, low, high = call.table, call.slots, call.low, call.high
    facts, size, stride, count = call.facts, call.size, call.stride, call.count
    for index in range(min(AHEAD, count)):
        prefetch(table, first_slot(slots, low[index]))
    for index in range(count):
        if index + AHEAD < count:
            prefetch(table, first_slot(slots, low[index + AHEAD]))
        if index + AHEAD // 2 < count:
            ask_for_facts(table, slots, facts, size, stride, low[index + AHEAD // 2])
        slot = first_slot(slots, low[index])
        slot = slot_of_key(table, slots, slot, facts, size, stride, low[index], high[index])
        call.number[index] = -1 if slot < 0 else number_in(table[slot])
    return 0
