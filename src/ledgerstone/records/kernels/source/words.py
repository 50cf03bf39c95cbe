"""The machine words kernels are written in. Pure.

Compiled, `i64` and `u64` are numba's casts and `copy_bytes` is LLVM's memcpy; these bodies say what
they mean, and let tests run every kernel uncompiled over bounds-checked pointers.
"""

from typing import Final, Protocol

U64_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
SIGN_BIT: Final = 1 << 63


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


def copy_bytes(target: Pointer, at: int, source: Pointer, start: int, size: int) -> None:
    """Copies `size` bytes; the caller has checked both ends."""
    for index in range(size):
        target[at + index] = source[start + index]
