"""Kernel source: SipHash of pieces of any length side by side, and of contents. Pure.

Pieces go by length, the longest first. So those that have a next word are always the first lanes,
and what was hashed to its end is taken out of the way of the vectors.
"""

from ledgerstone.records.kernels.source.record import read_bytes_length
from ledgerstone.records.kernels.source.siphash import (
    FEW,
    LANES,
    ROW,
    V1,
    V2,
    V3,
    VECTOR,
    WORD,
    finish,
    finish_lanes,
    keyed,
    keyed_lanes,
    last_word,
    mix,
    mix_lanes,
    read_word,
)
from ledgerstone.records.kernels.source.words import Pointer, i64, u64

# Columns of `lanes` behind those of `siphash`: states of pieces that are at their end.
DONE = 7 * LANES
PIECE_LANE_WORDS = 11 * LANES


def hash_pieces(
    source: Pointer,
    start: Pointer,
    length: Pointer,
    count: int,
    k0: int,
    k1: int,
    low: Pointer,
    high: Pointer,
    lanes: Pointer,
) -> None:
    """Hashes of `count` pieces of `source`, whose spans the caller has checked."""
    for first in range(0, count, LANES):
        taken = min(LANES, count - first)
        order_rows(length, first, taken, lanes)
        hash_ordered(source, start, length, taken, k0, k1, lanes)
        for lane in range(taken):
            row = i64(lanes[ROW + lane])
            low[row] = lanes[lane]
            high[row] = lanes[V1 + lane]


def order_rows(length: Pointer, first: int, taken: int, lanes: Pointer) -> None:
    """A lane for each row, those with more words before those with fewer."""
    for lane in range(taken):
        words = i64(length[first + lane]) >> 3
        place = lane
        while place > 0 and i64(length[i64(lanes[ROW + place - 1])]) >> 3 < words:
            lanes[ROW + place] = lanes[ROW + place - 1]
            place -= 1
        lanes[ROW + place] = u64(first + lane)


def hash_ordered(
    source: Pointer, start: Pointer, length: Pointer, taken: int, k0: int, k1: int, lanes: Pointer
) -> None:
    """Low and high words of the pieces that have a lane, in the first two columns."""
    keyed_lanes(lanes, LANES, k0, k1)
    active, word = taken, 0
    while active >= FEW:
        whole = active
        while whole > 0 and i64(length[i64(lanes[ROW + whole - 1])]) >> 3 == word:
            whole -= 1
        for lane in range(whole):
            lanes[WORD + lane] = read_word(source, start[i64(lanes[ROW + lane])] + 8 * word)
        for lane in range(whole, active):
            row = i64(lanes[ROW + lane])
            lanes[WORD + lane] = last_word(source, start[row], i64(length[row]))
        mix_lanes(lanes, (active + VECTOR - 1) & ~(VECTOR - 1))
        for lane in range(whole, active):
            copy_state(lanes, DONE + lane, lane)
        active = whole
        word += 1
    for lane in range(active):
        row = i64(lanes[ROW + lane])
        hash_rest(source, start[row], i64(length[row]), word, lanes, lane)
    for lane in range(taken):
        copy_state(lanes, lane, DONE + lane)
    finish_lanes(lanes, (taken + VECTOR - 1) & ~(VECTOR - 1))


def copy_state(lanes: Pointer, to: int, at: int) -> None:
    lanes[to] = lanes[at]
    lanes[V1 + to] = lanes[V1 + at]
    lanes[V2 + to] = lanes[V2 + at]
    lanes[V3 + to] = lanes[V3 + at]


def hash_rest(
    source: Pointer, start: int, length: int, word: int, lanes: Pointer, lane: int
) -> None:
    """One lane from its next word on: few pieces are not worth a vector."""
    v0, v1, v2, v3 = lanes[lane], lanes[V1 + lane], lanes[V2 + lane], lanes[V3 + lane]
    for position in range(start + 8 * word, start + (length & ~7), 8):
        v0, v1, v2, v3 = mix(v0, v1, v2, v3, read_word(source, position))
    v0, v1, v2, v3 = mix(v0, v1, v2, v3, last_word(source, start, length))
    lanes[DONE + lane] = v0
    lanes[DONE + V1 + lane] = v1
    lanes[DONE + V2 + lane] = v2
    lanes[DONE + V3 + lane] = v3


def length_size(length: int) -> int:
    """Bytes of the shortest zigzag varint of a length."""
    size = 1
    rest = length >> 6
    while rest > 0:
        size += 1
        rest >>= 7
    return size


def length_byte(length: int, index: int) -> int:
    """One byte of that varint."""
    rest = (2 * length) >> (7 * index)
    more = 0x80 if index + 1 < length_size(length) else 0
    return (rest & 0x7F) | more


def hash_spread(source: Pointer, position: int, end: int, k0: int, k1: int) -> tuple[int, int]:
    """The hash of a content whose lengths took more bytes than they need, as if they had not.

    `position` is where the length of the key is; the record has been read before.
    """
    _, key_length, key_start = read_bytes_length(source, position, end)
    _, value_length, value_start = read_bytes_length(source, key_start + key_length, end)
    key_at = length_size(key_length)
    value_length_at = key_at + key_length
    value_at = value_length_at + length_size(value_length)
    total = value_at + value_length
    v0, v1, v2, v3 = keyed(k0, k1)
    word = u64(0)
    for index in range(total):
        if index < key_at:
            byte = length_byte(key_length, index)
        elif index < value_length_at:
            byte = i64(source[key_start + index - key_at])
        elif index < value_at:
            byte = length_byte(value_length, index - value_length_at)
        else:
            byte = i64(source[value_start + index - value_at])
        word = u64(word | u64(u64(byte) << u64(8 * (index & 7))))
        if index & 7 == 7:
            v0, v1, v2, v3 = mix(v0, v1, v2, v3, word)
            word = u64(0)
    word = u64(word | u64(u64(total) << u64(56)))
    v0, v1, v2, v3 = mix(v0, v1, v2, v3, word)
    return finish(v0, v1, v2, v3)
