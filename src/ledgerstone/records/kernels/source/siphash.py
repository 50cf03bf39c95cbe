"""Kernel source: SipHash-2-4 with 128 bits of output, over the keys of a window. Pure.

Keyed, so that nobody who writes keys can make two of them meet. Everything is `u64`: numba turns a
sum of signed and unsigned words into a float.
"""

from ledgerstone.records.kernels.source.words import Pointer, i64, u64

BAD_SPAN = 1


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


def siphash128(source: Pointer, start: int, length: int, k0: int, k1: int) -> tuple[int, int]:
    """(low word, high word) of one key; the caller has checked the span."""
    v0 = u64(k0 ^ u64(0x736F6D6570736575))
    v1 = u64(k1 ^ u64(0x646F72616E646F6D) ^ u64(0xEE))
    v2 = u64(k0 ^ u64(0x6C7967656E657261))
    v3 = u64(k1 ^ u64(0x7465646279746573))
    end = start + (length & ~7)
    for position in range(start, end, 8):
        word = read_word(source, position)
        v3 = v3 ^ word
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0 = v0 ^ word
    word = u64(u64(length) << u64(56))
    for index in range(length & 7):
        word = u64(word | u64(u64(source[end + index]) << u64(8 * index)))
    v3 = v3 ^ word
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0 = v0 ^ word
    v2 = v2 ^ u64(0xEE)
    v0, v1, v2, v3 = four_rounds(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 = v1 ^ u64(0xDD)
    v0, v1, v2, v3 = four_rounds(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


def hash_keys(
    buffer: Pointer,
    split: int,
    arena: Pointer,
    end: int,
    key_start: Pointer,
    key_length: Pointer,
    count: int,
    k0: int,
    k1: int,
    low: Pointer,
    high: Pointer,
    report: Pointer,
) -> int:
    """Hashes of `count` keys; a null key hashes to (0, 0). report: the index of a bad span."""
    for index in range(count):
        length = i64(key_length[index])
        if length < 0:
            low[index] = u64(0)
            high[index] = u64(0)
            continue
        start = key_start[index]
        if not span_is_inside(start, length, split, end):
            report[0] = index
            return BAD_SPAN
        if start >= split:
            low[index], high[index] = siphash128(arena, start - split, length, k0, k1)
        else:
            low[index], high[index] = siphash128(buffer, start, length, k0, k1)
    return 0


def span_is_inside(start: int, length: int, split: int, end: int) -> bool:
    """Whether [start, start + length) lies wholly in the buffer or wholly in the arena."""
    if start < 0 or start > end or length > end - start:
        return False
    return start >= split or length <= split - start
