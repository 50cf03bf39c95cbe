"""Memory that the kernel calls of one cleaning share, and the descriptor that names it. Pure.

How much of each there must be is what `source` writes; a place too few overruns the heap.
"""

import ctypes
from typing import TYPE_CHECKING, Final

import numpy as np

from ledgerstone.records.kernels.abi import LANE_WORDS
from ledgerstone.records.kernels.descriptors import CleaningCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.hashing import UInt64s
from ledgerstone.records.kernels.key_offsets import JudgementRules, slots_of
from ledgerstone.records.kernels.newest import NewestBits
from ledgerstone.records.kernels.windows import Int64s
from ledgerstone.types import Buffer

if TYPE_CHECKING:
    from ledgerstone.records.kernels.filling import Value

# Some batches at a time: their columns stay in the first cache, and slots are waited for together.
_FIRST_ROOM: Final = 512
_OUTCOME_FIELDS: Final = 7
_REPORT_FIELDS: Final = 5
# Numbers of each kind, the earliest horizon, what was removed; then ranges of kept tombstones.
KINDS: Final = 7
RANGES_AT: Final = 10
RANGE_FIELDS: Final = 3
_MAX_RANGES: Final = 32
_COUNT_FIELDS: Final = RANGES_AT + 1 + RANGE_FIELDS * _MAX_RANGES
_Rules: Final = ctypes.c_int64 * len(JudgementRules._fields)

# What every call sets before it is needed.
_NOT_YET: Final["dict[str, Value]"] = {
    **dict.fromkeys(("buffer", "arena", "actions", "out"), b""),
    **dict.fromkeys(("rows", "rules", "state"), np.empty(0, np.int64)),
    **dict.fromkeys(("table", "newest"), np.empty(0, np.uint64)),
    **dict.fromkeys(("split", "capacity", "batch_start", "batch_end", "horizon", "out_room"), 0),
    **dict.fromkeys(("k0", "k1", "slots", "first_offset", "bits", "limit", "min_offset"), 0),
}


class Scratch:
    """Memory that one cleaning's kernel calls share, and the descriptor they all get: a call only
    sets what changed since the one before. Nothing in it outlives a call but a `PutState`'s rows,
    and an answer's columns and compressed bytes until the next.
    """

    __slots__ = (*("_keys", "_outcomes", "_rules", "call", "counts", "packed", "report", "room"),)

    def __init__(self) -> None:
        self._outcomes: Int64s = np.empty((_OUTCOME_FIELDS, 0), np.int64)
        self._rules: JudgementRules | None = None
        self._keys: tuple[UInt64s, tuple[int, int], NewestBits] | tuple[None, None, None]
        self._keys = (None, None, None)
        self.counts: Int64s = np.empty(_COUNT_FIELDS, np.int64)
        self.report: Int64s = np.zeros(_REPORT_FIELDS, np.int64)
        self.packed = Pile()
        self.room = _FIRST_ROOM
        self.call: Final = filled(
            CleaningCall,
            **_columns(_FIRST_ROOM),
            **_NOT_YET,
            outcomes=self._outcomes,
            counts=self.counts,
            report=self.report,
        )

    def reserve(self, room: int) -> None:
        """Places for `room` records, all of which some bytes back."""
        self.room = room
        self.call.set(**_columns(room))

    def outcomes(self, capacity: int) -> Int64s:
        """A place for what becomes of each of `capacity` batches."""
        # Windows of one reader nearly always have the same capacity.
        if self._outcomes.shape[1] != capacity:
            self._outcomes = np.empty((_OUTCOME_FIELDS, capacity), np.int64)
        return self._outcomes

    def use_rules(self, rules: JudgementRules) -> None:
        if rules != self._rules:
            self._rules = rules
            self.call.set(rules=_Rules(*rules), horizon=rules.new_horizon_ms)

    def use_keys(self, table: UInt64s, seed: tuple[int, int], newest: NewestBits) -> None:
        """Where keys are looked up; for most windows it is where the last one's were."""
        known = self._keys
        if known[0] is not table or known[1] != seed or known[2] is not newest:
            self._keys = table, seed, newest
            self.call.set(
                table=table,
                slots=slots_of(table),
                k0=seed[0],
                k1=seed[1],
                newest=newest.memory,
                first_offset=newest.first_offset,
                bits=len(newest),
            )


def _columns(room: int) -> "dict[str, Value]":
    """A place for each of `room` records, by the names in a `CleaningCall`."""
    wide, narrow = np.empty((4, room), np.int64), np.empty((3, room), np.int32)
    words = np.empty((2, room), np.uint64)
    return {
        "offset": wide[0],
        "timestamp": wide[1],
        "record_end": wide[2],
        "key_start": wide[3],
        "key_length": narrow[0],
        "value_length": narrow[1],
        "batch_index": narrow[2],
        "low": words[0],
        "high": words[1],
        "lanes": np.zeros(LANE_WORDS, np.uint64),
        "keep": np.empty(room, np.uint8),
        "room": room,
    }


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
