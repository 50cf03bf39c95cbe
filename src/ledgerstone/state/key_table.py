"""Numbers for keys: 0, 1, 2, … in the order in which keys are first seen. Pure.

Keys are stored as 128-bit hashes under a seed drawn for the run, never as bytes. The slots are
those of the cleaner's map (`records.kernels`), but hold a key's number instead of an offset, so
that callers can keep facts about keys in their own arrays.
"""

from typing import Final

import numpy as np

from ledgerstone.records.kernels import Hashes, moved_to_larger, new_table
from ledgerstone.records.kernels.key_offsets import slots_of
from ledgerstone.records.kernels.numbering import number_keys
from ledgerstone.records.kernels.windows import Int32s, Int64s

_FIRST_SLOTS: Final = 1 << 15
_MAX_LOAD: Final = 0.8
# A small table costs nothing, so it grows in few steps; a large one in steps that leave a key at
# most 40 bytes of slots: 24 / (0.8 / 1.3).
_SMALL_SLOTS: Final = 1 << 19
_SMALL_GROWTH: Final = 4.0
_LARGE_GROWTH: Final = 1.3
_SLOT_WORDS: Final = 3


class KeyTable:
    """Nothing is ever removed. Invariant: the numbers in it are exactly [0, size)."""

    __slots__ = ("_table", "size")

    def __init__(self) -> None:
        self.size = 0
        self._table = new_table(_FIRST_SLOTS)

    def number(self, hashes: Hashes, key_length: Int32s) -> Int64s:
        """The number of each key, a new one for a new key; -1 for no key."""
        numbers = np.empty(len(hashes.low), np.int64)
        done = 0
        while True:
            limit = int(slots_of(self._table) * _MAX_LOAD)
            self.size, done = number_keys(
                self._table, hashes, key_length, numbers, start=done, size=self.size, limit=limit
            )
            if done == len(numbers):
                return numbers
            self._grow()

    def keys(self) -> tuple[Hashes, Int64s]:
        """Every key and its number, in the order of the slots."""
        rows = self._table.reshape(-1, _SLOT_WORDS)
        rows = rows[rows[:, 2] != 0]
        return Hashes(rows[:, 0], rows[:, 1]), rows[:, 2].astype(np.int64) - 1

    def _grow(self) -> None:
        slots = slots_of(self._table)
        growth = _SMALL_GROWTH if slots < _SMALL_SLOTS else _LARGE_GROWTH
        self._table = moved_to_larger(self._table, int(slots * growth))


def distinct_keys(parts: list[Hashes]) -> tuple[int, int]:
    """(keys, keys in more than one part); within a part every key is unique."""
    if len(parts) < 2:
        return sum(len(part.low) for part in parts), 0
    table = KeyTable()
    is_in_several = np.zeros(0, np.bool_)
    for part in parts:
        numbers = table.number(part, np.zeros(len(part.low), np.int32))
        is_in_several[numbers[numbers < len(is_in_several)]] = True
        fresh = np.zeros(table.size - len(is_in_several), np.bool_)
        is_in_several = np.concatenate((is_in_several, fresh))
    return table.size, int(is_in_several.sum())
