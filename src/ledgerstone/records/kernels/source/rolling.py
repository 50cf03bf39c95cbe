"""Kernel source: finds byte strings known only by their fingerprints, anywhere in a buffer. Pure.

A polynomial fingerprint rolls over the bytes; where a filter and then the list know it, SipHash of
the window decides. Rolling is one chain of multiplications, each of which waits for the one before,
so four lanes roll side by side, each over its own quarter of the positions.
"""

from ledgerstone.records.kernels.descriptors import RollingCall
from ledgerstone.records.kernels.source.siphash import siphash128
from ledgerstone.records.kernels.source.words import Pointer, i64, u64

LANES = 4
BAD_WINDOW = 1

# What the filter says of the upper bits of a fingerprint: 0 is nobody's, SEVERAL belongs to more
# than one, anything else is the tag of the only one there.
SEVERAL = 255
TAGS = 254


def window_fingerprint(buffer: Pointer, start: int, length: int, base: int) -> int:
    """h = h * base + (byte + 1), from left to right; the caller has checked the span."""
    value = u64(0)
    for position in range(start, start + length):
        value = u64(u64(value * base) + u64(u64(buffer[position]) + u64(1)))
    return value


def power_of(base: int, exponent: int) -> int:
    value = u64(1)
    while exponent > 0:
        if exponent & 1:
            value = u64(value * base)
        base = u64(base * base)
        exponent >>= 1
    return value


def fill_leaving(leaving: Pointer, base: int, length: int) -> None:
    """What a byte that leaves the window takes with it, and the 1 of the byte that comes.

    Looked up: a second multiplication for each byte would have to wait for the first."""
    power = power_of(base, length)
    value = u64(u64(1) - power)
    for byte in range(256):
        leaving[byte] = value
        value = u64(value - power)


def rolled(value: int, base: int, leaving: int, coming: int) -> int:
    """The fingerprint one byte on."""
    return u64(u64(value * base) + u64(leaving + u64(coming)))


def tag_of(value: int) -> int:
    """From bits that choose no place in the filter."""
    return i64(u64(value >> u64(24)) % u64(TAGS)) + 1


def first_at_least(fingerprints: Pointer, count: int, value: int) -> int:
    """The index of the first in the sorted list that is not below `value`."""
    low = 0
    high = count
    while low < high:
        middle = (low + high) >> 1
        if fingerprints[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def pick(lane: int, first: int, second: int, third: int, fourth: int) -> int:
    if lane == 0:
        return first
    if lane == 1:
        return second
    if lane == 2:
        return third
    return fourth


def begin_lanes(call: RollingCall, size: int) -> None:
    report, free_from = call.report, call.free_from
    for lane in range(LANES):
        report[2 * lane] = lane * size
        report[2 * lane + 1] = 0
    for at in range(LANES * call.count):
        free_from[at] = call.start


def look(call: RollingCall, value: int, flag: int, position: int, lane: int) -> None:
    """Writes the window at `position` down if it is one of the strings."""
    if flag == 0 or (flag != SEVERAL and flag != tag_of(value)):
        return
    fingerprints, count, report = call.fingerprints, call.count, call.report
    free_from, length = call.free_from, call.length
    index = first_at_least(fingerprints, count, value)
    # Whoever chooses keys can make two of one fingerprint, even without knowing the base.
    while index < count and fingerprints[index] == value:
        if position >= free_from[lane * count + index]:
            found_low, found_high = siphash128(call.buffer, position, length, call.k0, call.k1)
            if found_low == call.low[index] and found_high == call.high[index]:
                place = report[2 * lane] + report[2 * lane + 1]
                call.positions[place] = position
                call.which[place] = index
                report[2 * lane + 1] += 1
                free_from[lane * count + index] = position + length
                return
        index += 1


def look_at_rest(call: RollingCall, value: int, first: int) -> None:
    """The one to four windows from `first` on; they count as the last lane's."""
    buffer, end, length, leaving = call.buffer, call.end, call.length, call.leaving
    for position in range(first, end - length + 1):
        flag = i64(call.known[i64(value >> u64(64 - call.filter_bits))])
        look(call, value, flag, position, LANES - 1)
        if position + length < end:
            value = rolled(value, call.base, leaving[buffer[position]], buffer[position + length])


def find_rolling(call: RollingCall) -> int:
    """Every window of `length` bytes in [start, end) that is one of the `count` strings.

    Of windows that overlap and are the same string only the first of a lane counts: a run of one
    byte would otherwise be found, and hashed, at every position. `positions` and `which` have a
    place for each window; a lane writes from its own first window on. report: for each lane the
    first of its places, and how many it filled.
    """
    buffer, start, length, base = call.buffer, call.start, call.length, call.base
    known, leaving = call.known, call.leaving
    windows = call.end - start - length + 1
    # One window less, so that each lane may roll once more than it looks.
    size = max((windows - 1) // LANES, 0)
    begin_lanes(call, size)
    if windows < 1:
        return 0
    if start < 0 or length < 1 or windows > call.room or not 1 <= call.filter_bits <= 24:
        return BAD_WINDOW
    fill_leaving(leaving, base, length)
    shift = u64(64 - call.filter_bits)
    first1 = start + size
    first2 = first1 + size
    first3 = first2 + size
    hash0 = window_fingerprint(buffer, start, length, base)
    hash1 = window_fingerprint(buffer, first1, length, base)
    hash2 = window_fingerprint(buffer, first2, length, base)
    hash3 = window_fingerprint(buffer, first3, length, base)
    for at in range(size):
        flag0 = i64(known[i64(hash0 >> shift)])
        flag1 = i64(known[i64(hash1 >> shift)])
        flag2 = i64(known[i64(hash2 >> shift)])
        flag3 = i64(known[i64(hash3 >> shift)])
        if (flag0 | flag1 | flag2 | flag3) != 0:
            for lane in range(LANES):
                value = pick(lane, hash0, hash1, hash2, hash3)
                flag = pick(lane, flag0, flag1, flag2, flag3)
                look(call, value, flag, start + lane * size + at, lane)
        hash0 = rolled(hash0, base, leaving[buffer[start + at]], buffer[start + at + length])
        hash1 = rolled(hash1, base, leaving[buffer[first1 + at]], buffer[first1 + at + length])
        hash2 = rolled(hash2, base, leaving[buffer[first2 + at]], buffer[first2 + at + length])
        hash3 = rolled(hash3, base, leaving[buffer[first3 + at]], buffer[first3 + at + length])
    look_at_rest(call, hash3, first3 + size)
    return 0
