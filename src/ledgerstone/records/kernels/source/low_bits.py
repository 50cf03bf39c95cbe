"""Kernel source: where a window could be one of a few strings, by 16 bits of its fingerprint. Pure.

The fingerprints of all windows of a block at once, by doubling: a window of 2n bytes is made from
two of n bytes, and one of any length from those of its powers of two. No step waits for the one
before it, so LLVM makes vectors of them, and 16 bits put sixteen into one. The fingerprint is that
of `rolling`, modulo 2^16.
"""

from ledgerstone.records.kernels.descriptors import CandidatesCall
from ledgerstone.records.kernels.source.words import Pointer, i16, i64

TOO_MANY = 1
BAD_ROOM = 2


def sum_windows(call: CandidatesCall, start: int, count: int) -> None:
    """Into `sums` the windows of `length` bytes at `count` positions from `start` on."""
    buffer, length, powers = call.buffer, call.length, call.powers
    doubled, spare, sums = call.doubled, call.spare, call.sums
    for at in range(count + length - 1):
        doubled[at] = i16(i64(buffer[start + at]) + 1)
    done = 0
    size = 1
    level = 0
    while size <= length:
        factor = i64(powers[level])
        if length & size:
            if done == 0:
                for at in range(count):
                    sums[at] = doubled[at]
            else:
                for at in range(count):
                    sums[at] = i16(i64(sums[at]) * factor + i64(doubled[at + done]))
            done += size
        if 2 * size <= length:
            for at in range(count + length - 2 * size):
                spare[at] = i16(i64(doubled[at]) * factor + i64(doubled[at + size]))
            doubled, spare = spare, doubled
        size *= 2
        level += 1


def holds(sums: Pointer, count: int, wanted: int) -> bool:
    # Narrow all the way, or the vectors are as wide as the widest of it.
    found = i16(0)
    for at in range(count):
        found = i16(found | i16(sums[at] == wanted))
    return i64(found) != 0


def list_candidates(call: CandidatesCall) -> int:
    """Every position in [start, end - length] whose window has the low bits of a wanted one.

    report: how many positions were written; TOO_MANY where they found no room."""
    end, length, scratch, block = call.end, call.length, call.scratch, call.block
    sums, positions, report = call.sums, call.positions, call.report
    report[0] = 0
    if call.start < 0 or length < 1 or block < 1 or length > scratch or block > scratch - length:
        return BAD_ROOM
    written = 0
    first = call.start
    while first <= end - length:
        count = min(block, end - length + 1 - first)
        sum_windows(call, first, count)
        for index in range(call.wanted_count):
            low = call.wanted[index]
            if not holds(sums, count, low):
                continue
            for at in range(count):
                if sums[at] == low:
                    if written >= call.room:
                        return TOO_MANY
                    positions[written] = first + at
                    written += 1
        first += count
    report[0] = written
    return 0
