"""Kernel source: SipHash-2-4 with 128 bits of output, over the keys of a window. Pure.

Keyed, so that nobody who writes keys can make two of them meet. Everything is `u64`: numba turns a
sum of signed and unsigned words into a float.

A hash is a long chain of steps that wait for each other, so keys of as many words are hashed side
by side: their states are columns of `lanes`, and a loop over a column is one the compiler turns
into vector instructions where the processor has them.
"""

from ledgerstone.records.kernels.descriptors import HashCall
from ledgerstone.records.kernels.source.words import Pointer, i64, u64

BAD_SPAN = 1

# Keys side by side, and the columns of `lanes`: the state, the next word, the key's row, and the
# rows that are still to be hashed.
LANES = 64
V1 = 1 * LANES
V2 = 2 * LANES
V3 = 3 * LANES
WORD = 4 * LANES
ROW = 5 * LANES
PENDING = 6 * LANES
LANE_WORDS = 7 * LANES
# Columns are worked on in whole vectors. Fewer keys than half of one are not worth its trouble.
VECTOR = 8
FEW = 4


def rotate(word: int, bits: int) -> int:
    return u64(u64(word << u64(bits)) | (word >> u64(64 - bits)))


def sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = u64(v0 + v1)
    v1 = rotate(v1, 13) ^ v0
    v0 = rotate(v0, 32)
    v2 = u64(v2 + v3)
    v3 = rotate(v3, 16) ^ v2
    v0 = u64(v0 + v3)
    v3 = rotate(v3, 21) ^ v0
    v2 = u64(v2 + v1)
    v1 = rotate(v1, 17) ^ v2
    v2 = rotate(v2, 32)
    return v0, v1, v2, v3


def four_rounds(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return sip_round(v0, v1, v2, v3)


def read_word(source: Pointer, start: int) -> int:
    """Eight bytes, little-endian; LLVM makes one load of it."""
    return u64(
        u64(source[start])
        | u64(u64(source[start + 1]) << u64(8))
        | u64(u64(source[start + 2]) << u64(16))
        | u64(u64(source[start + 3]) << u64(24))
        | u64(u64(source[start + 4]) << u64(32))
        | u64(u64(source[start + 5]) << u64(40))
        | u64(u64(source[start + 6]) << u64(48))
        | u64(u64(source[start + 7]) << u64(56))
    )


def last_word(source: Pointer, start: int, length: int) -> int:
    """The bytes behind the last whole word of a key, and its length in the highest byte."""
    word = u64(u64(length) << u64(56))
    tail = length & 7
    if tail == 0:
        return word
    if length >= 8:
        # One load that also takes bytes of the word before, and drops them.
        rest = read_word(source, start + length - 8)
        return u64(word | u64(rest >> u64(8 * (8 - tail))))
    for index in range(tail):
        word = u64(word | u64(u64(source[start + index]) << u64(8 * index)))
    return word


def siphash128(source: Pointer, start: int, length: int, k0: int, k1: int) -> tuple[int, int]:
    """(low word, high word) of one key; the caller has checked the span."""
    v0, v1, v2, v3 = keyed(k0, k1)
    for position in range(start, start + (length & ~7), 8):
        v0, v1, v2, v3 = mix(v0, v1, v2, v3, read_word(source, position))
    v0, v1, v2, v3 = mix(v0, v1, v2, v3, last_word(source, start, length))
    return finish(v0, v1, v2, v3)


def keyed(k0: int, k1: int) -> tuple[int, int, int, int]:
    """The state before the first word."""
    v0 = u64(k0 ^ u64(0x736F6D6570736575))
    v1 = u64(k1 ^ u64(0x646F72616E646F6D) ^ u64(0xEE))
    v2 = u64(k0 ^ u64(0x6C7967656E657261))
    v3 = u64(k1 ^ u64(0x7465646279746573))
    return v0, v1, v2, v3


def mix(v0: int, v1: int, v2: int, v3: int, word: int) -> tuple[int, int, int, int]:
    v3 = v3 ^ word
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


def finish(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int]:
    v2 = v2 ^ u64(0xEE)
    v0, v1, v2, v3 = four_rounds(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 = v1 ^ u64(0xDD)
    v0, v1, v2, v3 = four_rounds(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


def hash_spans(
    buffer: Pointer,
    split: int,
    arena: Pointer,
    key_start: Pointer,
    key_length: Pointer,
    count: int,
    k0: int,
    k1: int,
    low: Pointer,
    high: Pointer,
    lanes: Pointer,
) -> None:
    """Hashes of the keys of `count` rows, whose spans the caller has checked; none for a null."""
    for first in range(0, count, LANES):
        pending = 0
        for row in range(first, min(first + LANES, count)):
            if i64(key_length[row]) >= 0:
                lanes[PENDING + pending] = u64(row)
                pending += 1
        while pending > 0:
            words, taken, pending = take_alike(key_length, pending, lanes)
            if taken < FEW:
                for lane in range(taken):
                    row = i64(lanes[ROW + lane])
                    source, start = locate(buffer, split, arena, key_start[row])
                    low[row], high[row] = siphash128(source, start, i64(key_length[row]), k0, k1)
            else:
                hash_lanes(
                    buffer, split, arena, key_start, key_length, words, taken, k0, k1, low, high,
                    lanes,
                )  # fmt: skip


def locate(buffer: Pointer, split: int, arena: Pointer, position: int) -> tuple[Pointer, int]:
    """What a virtual position lies in, and where."""
    if position >= split:
        return arena, position - split
    return buffer, position


def take_alike(key_length: Pointer, pending: int, lanes: Pointer) -> tuple[int, int, int]:
    """(whole words, rows taken, rows left): those with as many words as the first get a lane."""
    words = i64(key_length[i64(lanes[PENDING])]) >> 3
    taken = 0
    left = 0
    for index in range(pending):
        row = lanes[PENDING + index]
        if i64(key_length[i64(row)]) >> 3 == words:
            lanes[ROW + taken] = row
            taken += 1
        else:
            lanes[PENDING + left] = row
            left += 1
    return words, taken, left


def hash_lanes(
    buffer: Pointer,
    split: int,
    arena: Pointer,
    key_start: Pointer,
    key_length: Pointer,
    words: int,
    taken: int,
    k0: int,
    k1: int,
    low: Pointer,
    high: Pointer,
    lanes: Pointer,
) -> None:
    """Hashes of the keys that have a lane; all of them have so many whole words."""
    count = (taken + VECTOR - 1) & ~(VECTOR - 1)
    keyed_lanes(lanes, count, k0, k1)
    for word in range(words):
        for lane in range(taken):
            source, start = locate(buffer, split, arena, key_start[i64(lanes[ROW + lane])])
            lanes[WORD + lane] = read_word(source, start + 8 * word)
        mix_lanes(lanes, count)
    for lane in range(taken):
        row = i64(lanes[ROW + lane])
        source, start = locate(buffer, split, arena, key_start[row])
        lanes[WORD + lane] = last_word(source, start, i64(key_length[row]))
    mix_lanes(lanes, count)
    finish_lanes(lanes, count)
    for lane in range(taken):
        row = i64(lanes[ROW + lane])
        low[row] = lanes[lane]
        high[row] = lanes[V1 + lane]


def keyed_lanes(lanes: Pointer, count: int, k0: int, k1: int) -> None:
    v0, v1, v2, v3 = keyed(k0, k1)
    for lane in range(count):
        lanes[lane] = v0
        lanes[V1 + lane] = v1
        lanes[V2 + lane] = v2
        lanes[V3 + lane] = v3


def mix_lanes(lanes: Pointer, count: int) -> None:
    """The next word of each lane into its state."""
    for lane in range(count):
        v0, v1, v2, v3 = mix(
            lanes[lane], lanes[V1 + lane], lanes[V2 + lane], lanes[V3 + lane], lanes[WORD + lane]
        )
        lanes[lane] = v0
        lanes[V1 + lane] = v1
        lanes[V2 + lane] = v2
        lanes[V3 + lane] = v3


def finish_lanes(lanes: Pointer, count: int) -> None:
    """Low and high words, in the places of the first two words of the state."""
    for lane in range(count):
        lanes[lane], lanes[V1 + lane] = finish(
            lanes[lane], lanes[V1 + lane], lanes[V2 + lane], lanes[V3 + lane]
        )


def hash_keys(call: HashCall) -> int:
    """Hashes of `count` keys; a null key hashes to (0, 0)."""
    start, length, low, high = call.start, call.length, call.low, call.high
    for index in range(call.count):
        size = i64(length[index])
        if size < 0:
            low[index] = u64(0)
            high[index] = u64(0)
        elif not span_is_inside(start[index], size, call.split, call.end):
            call.report[0] = index
            return BAD_SPAN
    hash_spans(
        call.buffer, call.split, call.arena, start, length, call.count, call.k0, call.k1, low, high,
        call.lanes,
    )  # fmt: skip
    return 0


def span_is_inside(start: int, length: int, split: int, end: int) -> bool:
    """Whether [start, start + length) lies wholly in the buffer or wholly in the arena."""
    if start < 0 or start > end or length > end - start:
        return False
    return start >= split or length <= split - start
