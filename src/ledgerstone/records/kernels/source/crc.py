"""Kernel source: CRC-32C over a span, for processors that have an instruction for it. Pure.

The instruction takes three cycles and a new one can start in each, so a long span is cut into three
lanes side by side. What a lane adds is moved behind the lanes after it by a multiplication with
x^(8n) modulo the polynomial, n being the bytes it moves over.
"""

from ledgerstone.records.kernels.source.siphash import read_word
from ledgerstone.records.kernels.source.words import (
    CRC_POLYNOMIAL,
    Pointer,
    crc_byte,
    crc_word,
    u64,
)

ALL_ONES = 0xFFFFFFFF

# Bytes of a lane, and x^(8n) for one lane and for two: batches of 16 KB go in one step of the first
# kind, what is left in steps of the second.
LONG_LANE = 5120
LONG_ONCE = 0x8EEAFE04
LONG_TWICE = 0x8778FBDE
SHORT_LANE = 512
SHORT_ONCE = 0x74C360A4
SHORT_TWICE = 0xE4172B16


def crc32c(buffer: Pointer, start: int, end: int) -> int:
    """Of [start, end), which the caller has checked."""
    crc = u64(ALL_ONES)
    position = start
    while end - position >= 3 * LONG_LANE:
        crc = crc_lanes(buffer, position, crc, LONG_LANE, u64(LONG_ONCE), u64(LONG_TWICE))
        position += 3 * LONG_LANE
    while end - position >= 3 * SHORT_LANE:
        crc = crc_lanes(buffer, position, crc, SHORT_LANE, u64(SHORT_ONCE), u64(SHORT_TWICE))
        position += 3 * SHORT_LANE
    while end - position >= 8:
        crc = crc_word(crc, read_word(buffer, position))
        position += 8
    while position < end:
        crc = crc_byte(crc, u64(buffer[position]))
        position += 1
    return u64(crc ^ u64(ALL_ONES))


def crc_lanes(buffer: Pointer, start: int, crc: int, lane: int, once: int, twice: int) -> int:
    """Three lanes of `lane` bytes each, the register of what came before in the first."""
    first = crc
    second = u64(0)
    third = u64(0)
    for position in range(start, start + lane, 8):
        first = crc_word(first, read_word(buffer, position))
        second = crc_word(second, read_word(buffer, position + lane))
        third = crc_word(third, read_word(buffer, position + 2 * lane))
    return u64(multiply(first, twice) ^ multiply(second, once) ^ third)


def multiply(left: int, right: int) -> int:
    """Of two polynomials modulo CRC-32C's, the highest power in the lowest bit."""
    product = u64(0)
    for bit in range(31, -1, -1):
        product = u64(product ^ u64(right * u64(u64(left >> u64(bit)) & u64(1))))
        right = u64(right >> u64(1)) ^ u64(u64(CRC_POLYNOMIAL) * u64(right & u64(1)))
    return product
