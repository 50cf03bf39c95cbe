"""Which offsets hold the newest record of a key, as far as a cleaning's map reaches. Pure.

A bit for each offset, set and cleared by `map_payloads` while it fills the table of keys. They hold
as long as records have keys and come by rising offsets (`PutState.bits_hold`).
"""

from typing import Final

import numpy as np

from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.memory import borrow
from ledgerstone.records.kernels.windows import Batches, Bytes

# 16 MiB. Offsets with more room than that between them are mostly gaps.
MAX_BITS: Final = 1 << 27


class NewestBits:
    """For the offsets from `first_offset` to `end_offset`; none at all if they are too many."""

    __slots__ = ("_bits", "first_offset", "memory")

    def __init__(self, first_offset: int, end_offset: int) -> None:
        bits = end_offset - first_offset
        if not 0 < bits <= MAX_BITS:
            bits = 0
        # Zeros that nobody has touched cost nothing.
        self.memory: Final = np.zeros(bits // 64 + 1, np.uint64)
        self.first_offset: Final = first_offset
        self._bits = bits

    def __len__(self) -> int:
        return self._bits


def discard_superseded(
    batches: Batches, actions: Bytes, newest: NewestBits, latest_offset: int
) -> int:
    """DISCARDs the batches up to `latest_offset` that have no newest record of a key. Answers how
    many records these have."""
    if len(actions) < len(batches):
        raise ValueError(f"{len(actions)} actions for {len(batches)} batches")
    buffers = (batches.memory, newest.memory, actions)
    (rows, bits, flags), pins = zip(*(borrow(each.data) for each in buffers), strict=True)
    records: int = kernel("discard_superseded")(
        rows,
        batches.capacity,
        len(batches),
        bits,
        newest.first_offset,
        len(newest),
        latest_offset,
        flags,
    )
    del pins
    return records
