"""Kernel source: keys numbered as they come, and the latest record of each. Pure.

The table is that of `key_offsets`, with a key's number where an offset would be; what is known of a
key lies in arrays by its number. A mark is the offset of the key's latest record, `~offset` where
that is a tombstone, NO_RECORD where there is none.
"""

from ledgerstone.records.kernels.source.key_offsets import (
    FULL,
    HIGH_WORD,
    NO_SLOT,
    OFFSET_WORD,
    find_place,
)
from ledgerstone.records.kernels.source.siphash import BAD_SPAN, siphash128, span_is_inside
from ledgerstone.records.kernels.source.words import Pointer, i64, u64

BAD_NUMBER = 120
NO_RECORD = -9223372036854775808

# Fields of the counts of `mark_rows`.
TOMBSTONES = 0
DELETES_APPLIED = 1
RECREATED = 2


def number_keys(
    table: Pointer,
    slots: int,
    limit: int,
    low: Pointer,
    high: Pointer,
    key_length: Pointer,
    start: int,
    count: int,
    number: Pointer,
    state: Pointer,
) -> int:
    """The number of each key from `start` on, a new one where it has none; -1 without a key.

    Stops with FULL at the first new key once `limit` keys are in. state: keys in the table, rows
    done.
    """
    size = state[0]
    for index in range(start, count):
        state[1] = index
        if i64(key_length[index]) < 0:
            number[index] = -1
            continue
        at = find_place(table, slots, low[index], high[index])
        if at < 0:
            return NO_SLOT
        if table[at + OFFSET_WORD] == u64(0):
            if size >= limit:
                return FULL
            table[at] = low[index]
            table[at + HIGH_WORD] = high[index]
            size += 1
            table[at + OFFSET_WORD] = u64(size)
            state[0] = size
        number[index] = i64(table[at + OFFSET_WORD]) - 1
    state[1] = count
    return 0


def mark_rows(
    number: Pointer,
    offset: Pointer,
    value_length: Pointer,
    count: int,
    mark: Pointer,
    size: int,
    counts: Pointer,
) -> int:
    """Lets each row be its key's latest, in order, and counts what that turns."""
    for index in range(count):
        at = number[index]
        if at < 0:
            continue
        if at >= size:
            return BAD_NUMBER
        before = mark[at]
        if i64(value_length[index]) < 0:
            counts[TOMBSTONES] = counts[TOMBSTONES] + 1
            if before >= 0:
                counts[DELETES_APPLIED] = counts[DELETES_APPLIED] + 1
            mark[at] = ~offset[index]
        else:
            if before < 0 and before != NO_RECORD:
                counts[RECREATED] = counts[RECREATED] + 1
            mark[at] = offset[index]
    return 0


def varint_size(length: int) -> int:
    """Bytes of a zigzag varint of a length."""
    size = 1
    rest = length >> 6
    while rest > 0:
        size += 1
        rest >>= 7
    return size


def hash_contents(
    buffer: Pointer,
    split: int,
    arena: Pointer,
    end: int,
    offset: Pointer,
    key_start: Pointer,
    key_length: Pointer,
    value_start: Pointer,
    value_length: Pointer,
    number: Pointer,
    count: int,
    mark: Pointer,
    size: int,
    k0: int,
    k1: int,
    low: Pointer,
    high: Pointer,
    odd: Pointer,
    report: Pointer,
) -> int:
    """Hashes key and value, with their lengths, of each row that is its key's latest and live.

    They lie side by side in a record, so they are hashed where they are; rows whose lengths took
    more bytes than they need are listed in `odd`. report: odd rows, or the index of a bad span.
    """
    odd_count = 0
    for index in range(count):
        at = number[index]
        value_size = i64(value_length[index])
        if at < 0 or value_size < 0:
            continue
        if at >= size:
            return BAD_NUMBER
        if mark[at] != offset[index]:
            continue
        key_size = i64(key_length[index])
        start = key_start[index] - varint_size(key_size)
        length = value_start[index] + value_size - start
        # The second half: a span made of numbers that do not fit together may be negative.
        if not span_is_inside(start, length, split, end) or length < key_size + value_size + 2:
            report[0] = index
            return BAD_SPAN
        source, place = buffer, start
        if start >= split:
            source, place = arena, start - split
        last = i64(source[place + varint_size(key_size) - 1])
        between = length - varint_size(key_size) - key_size - value_size
        # Only the varint of zero ends in a zero byte, unless it is longer than it need be.
        if (last == 0 and key_size != 0) or between != varint_size(value_size):
            odd[odd_count] = index
            odd_count += 1
            continue
        low[at], high[at] = siphash128(source, place, length, k0, k1)
    report[0] = odd_count
    return 0
