"""Memory that the kernel calls of one cleaning share, and where it lies. Pure.

How much of each there must be is what `source` writes; a place too few overruns the heap.
"""

import ctypes
from typing import Final, NamedTuple

import numpy as np

from ledgerstone.records.kernels.abi import LANE_WORDS
from ledgerstone.records.kernels.key_offsets import JudgementRules
from ledgerstone.records.kernels.memory import Pinned
from ledgerstone.records.kernels.windows import Int64s
from ledgerstone.types import Buffer

# Some batches at a time: their columns stay in the first cache, and slots are waited for together.
_FIRST_ROOM: Final = 512
_WIDE, _NARROW, _WORDS = 4, 3, 2
_OUTCOME_FIELDS: Final = 7
_REPORT_FIELDS: Final = 5
# Numbers of each kind, the earliest horizon, what was removed; then ranges of kept tombstones.
KINDS: Final = 7
RANGES_AT: Final = 10
RANGE_FIELDS: Final = 3
_MAX_RANGES: Final = 32
_COUNT_FIELDS: Final = RANGES_AT + 1 + RANGE_FIELDS * _MAX_RANGES
_Rules: Final = ctypes.c_int64 * len(JudgementRules._fields)


class Scratch:
    """Memory that one cleaning's kernel calls share, and the addresses of what they all get.
    Nothing in it outlives a call but a `PutState`'s rows, and an answer's columns and compressed
    bytes until the next.
    """

    __slots__ = (
        *("_columns", "_outcomes", "_rules", "_rules_numbers", "columns", "counts", "counts_at"),
        *("keep", "packed", "pinned", "report", "report_at", "room"),
    )

    def __init__(self) -> None:
        self.reserve(_FIRST_ROOM)
        self._outcomes: Int64s = np.empty((_OUTCOME_FIELDS, 0), np.int64)
        self._rules: JudgementRules | None = None
        self._rules_numbers = _Rules()
        self.counts: Int64s = np.empty(_COUNT_FIELDS, np.int64)
        self.report: Int64s = np.zeros(_REPORT_FIELDS, np.int64)
        self.counts_at = ctypes.c_void_p(self.counts.ctypes.data)
        self.report_at = ctypes.c_void_p(self.report.ctypes.data)
        self.packed = Pile()
        self.pinned = PinnedWindow(*(Pinned() for _ in PinnedWindow._fields))

    def reserve(self, room: int) -> None:
        """Places for `room` records, all of which some bytes back."""
        self.room = room
        wide, narrow = np.empty((_WIDE, room), np.int64), np.empty((_NARROW, room), np.int32)
        words, keep = np.empty((_WORDS, room), np.uint64), np.empty(room, np.uint8)
        lanes = np.zeros(LANE_WORDS, np.uint64)
        self._columns = (wide, narrow, words, lanes, keep)
        rows = (*wide, *narrow, *words, lanes)
        self.columns = tuple(ctypes.c_void_p(row.ctypes.data) for row in rows)
        self.keep = ctypes.c_void_p(keep.ctypes.data)

    def outcomes(self, capacity: int) -> Int64s:
        """A place for what becomes of each of `capacity` batches."""
        # Windows of one reader nearly always have the same capacity.
        if self._outcomes.shape[1] != capacity:
            self._outcomes = np.empty((_OUTCOME_FIELDS, capacity), np.int64)
        return self._outcomes

    def rules(self, rules: JudgementRules) -> "ctypes.Array[ctypes.c_int64]":
        if rules != self._rules:
            self._rules, self._rules_numbers = rules, _Rules(*rules)
        return self._rules_numbers


class Pile:
    """Bytes put one behind the other in memory that is kept: fresh memory costs as much as filling
    it."""

    __slots__ = ("_memory", "_used")

    def __init__(self) -> None:
        self._memory = memoryview(bytearray())
        self._used = 0

    def clear(self) -> None:
        self._used = 0

    def add(self, piece: Buffer) -> None:
        end = self._used + len(piece)
        if end > len(self._memory):
            larger = memoryview(bytearray(2 * end))
            larger[: self._used] = self.view
            self._memory = larger
        self._memory[self._used : end] = piece
        self._used = end

    @property
    def view(self) -> memoryview:
        return self._memory[: self._used]


class PinnedWindow(NamedTuple):
    """What is usually the same from window to window."""

    buffer: Pinned
    arena: Pinned
    rows: Pinned
    actions: Pinned
    table: Pinned
    out: Pinned
    outcomes: Pinned
