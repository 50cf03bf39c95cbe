"""The machine words kernels are written in. Pure.

Compiled, `i16`, `i64` and `u64` are casts of numba, `copy_bytes` and `prefetch` LLVM's memcpy and
prefetch, and the steps of a CRC are instructions of the processor where it has them; these bodies
say what they mean, and let tests run every kernel uncompiled over bounds-checked pointers.
"""

from typing import Final, Protocol

U64_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
SIGN_BIT: Final = 1 << 63
# CRC-32C's polynomial, the bits of a byte from the lowest up.
CRC_POLYNOMIAL = 0x82F63B78


class Pointer(Protocol):
    """A bare address with a width: indexing it checks nothing once compiled."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...


def i64(value: int) -> int:
    """The low 64 bits as a signed number."""
    return ((int(value) + SIGN_BIT) & U64_MASK) - SIGN_BIT


def u64(value: int) -> int:
    """The low 64 bits as an unsigned number; never mix it with `i64`, numba makes that a float."""
    return int(value) & U64_MASK


def i16(value: int) -> int:
    """The low 16 bits as a signed number."""
    return ((int(value) + 0x8000) & 0xFFFF) - 0x8000


def copy_bytes(target: Pointer, at: int, source: Pointer, start: int, size: int) -> None:
    """Copies `size` bytes; the caller has checked both ends."""
    for index in range(size):
        target[at + index] = source[start + index]


def prefetch(source: Pointer, index: int) -> None:
    """Asks for the memory at `index` without waiting for it."""


def has_crc_instruction() -> int:
    """Compiled, 0 where the two steps below are the loops they are here."""
    return 1


def crc_byte(crc: int, byte: int) -> int:
    """One byte into the register of a CRC-32C."""
    crc = u64(crc ^ byte)
    for _ in range(8):
        crc = u64(crc >> u64(1)) ^ u64(u64(CRC_POLYNOMIAL) * u64(crc & u64(1)))
    return crc


def crc_word(crc: int, word: int) -> int:
    """Eight bytes, little-endian, into the register of a CRC-32C."""
    crc = u64(crc ^ word)
    for _ in range(64):
        crc = u64(crc >> u64(1)) ^ u64(u64(CRC_POLYNOMIAL) * u64(crc & u64(1)))
    return crc
