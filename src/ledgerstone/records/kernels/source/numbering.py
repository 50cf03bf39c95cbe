"""Kernel source: keys numbered as they come. Pure.

The table is that of `key_offsets`, with a key's number where an offset would be; what is known of a
key lies in arrays of the caller by its number.
"""

from ledgerstone.records.kernels.descriptors import NumberCall
from ledgerstone.records.kernels.source.key_offsets import (
    FULL,
    HIGH_WORD,
    NO_SLOT,
    OFFSET_WORD,
    find_place,
)
from ledgerstone.records.kernels.source.words import i64, u64


def number_keys(call: NumberCall) -> int:
    """The number of each key from `start` on, a new one where it has none; -1 without a key.

    Stops with FULL at the first new key once `limit` keys are in."""
    table, low, high = call.table, call.low, call.high
    key_length, number, state = call.key_length, call.number, call.state
    size = state[0]
    for index in range(call.start, call.count):
        state[1] = index
        if i64(key_length[index]) < 0:
            number[index] = -1
            continue
        at = find_place(table, call.slots, low[index], high[index])
        if at < 0:
            return NO_SLOT
        if table[at + OFFSET_WORD] == u64(0):
            if size >= call.limit:
                return FULL
            table[at] = low[index]
            table[at + HIGH_WORD] = high[index]
            size += 1
            table[at + OFFSET_WORD] = u64(size)
            state[0] = size
        number[index] = i64(table[at + OFFSET_WORD]) - 1
    state[1] = call.count
    return 0
