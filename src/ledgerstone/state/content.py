"""What a live key contributes to the checksum of a topic's state. Pure.

A 128-bit hash over key and value as a Kafka record holds them: length of the key, key, length of
the value, value, with lengths as zigzag varints. In a record these are adjacent, so the kernel
`fold_batches` hashes them in place. The definition, with a program to compute it, is in
docs/state.md.
"""

from typing import Final

import numpy as np

from ledgerstone.records.kernels import Columns, Hashes

# The key of the hash. A constant, so that everyone computes the same number.
CONTENT_KEY: Final = b"ledgerstonestate"
CHECKSUM_BITS: Final = 128

_MASK32: Final = np.uint64(0xFFFFFFFF)


def sum_of(hashes: Hashes) -> int:
    """The sum modulo 2**128; half words are summed, so that no carry is lost."""
    total = 0
    for shift, words in ((0, hashes.low), (64, hashes.high)):
        lower = int((words & _MASK32).sum(dtype=np.uint64))
        upper = int((words >> np.uint64(32)).sum(dtype=np.uint64))
        total += (lower + (upper << 32)) << shift
    return total % (1 << CHECKSUM_BITS)


def checksum_text(checksum: int) -> str:
    return f"{checksum:032x}"


def bytes_of(columns: Columns, start: int, length: int) -> bytes:
    """The bytes of a span, by its virtual position."""
    source = columns.buffer if start < columns.split else columns.arena
    at = start if start < columns.split else start - columns.split
    return bytes(memoryview(source)[at : at + length])
