"""What a fold knows of each key: hash, latest record, content. Pure.

Keys are stored as 128-bit hashes under a seed drawn for the run, never as bytes. Keys are numbered
0, 1, 2, … in the order in which they are first seen, with a row of facts each; slots of eight bytes
map a hash to a number. Kernels fill both (`records.kernels.folding`).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ledgerstone.records.kernels import Hashes
from ledgerstone.records.kernels.folding import (
    CONTENT_AT,
    FACTS_WITH_CONTENT,
    FACTS_WITHOUT_CONTENT,
    MARK_AT,
    FoldColumns,
    FoldPlan,
    FoldState,
    find_keys,
    fold_payloads,
    moved_to_more_slots,
)
from ledgerstone.records.kernels.hashing import UInt64s
from ledgerstone.records.kernels.payloads import Payloads
from ledgerstone.records.kernels.windows import Bytes, Int64s
from ledgerstone.types import INT64_MAX

# The mark of a key without a record, yet or any more: no offset is that large.
NO_RECORD: Final = ~INT64_MAX

_FIRST_SLOTS: Final = 1 << 13
# Slots are full to between 0.35 and 0.7, which is 12 to 23 bytes a key.
_MAX_LOAD: Final = 0.7
_FIRST_ROOM: Final = 1 << 12
_GROWTH: Final = 1.5


class KeyFacts:
    """Nothing is ever removed. Invariant: the numbers in `_slots` are exactly [0, size)."""

    __slots__ = ("_facts", "_latest", "_slots", "size")

    def __init__(self, *, with_contents: bool) -> None:
        words = FACTS_WITH_CONTENT if with_contents else FACTS_WITHOUT_CONTENT
        self.size = 0
        self._latest: Int64s | None = None  # offsets, once they were asked for
        self._slots: UInt64s = np.zeros(_FIRST_SLOTS, np.uint64)
        self._facts: NDArray[np.uint64] = np.empty((_FIRST_ROOM, words), np.uint64)

    def fold(
        self,
        payloads: Payloads,
        skip: Bytes,
        plan: FoldPlan,
        columns: FoldColumns,
        *,
        last_seen: int = -1,
    ) -> FoldState:
        state = FoldState(keys=self.size, first_batch=payloads.first, last_seen=last_seen)
        try:
            while not fold_payloads(
                payloads, skip, plan, self._slots, self._facts, columns, state, limit=self._limit
            ):
                self._make_room()
        finally:
            self.size = state.keys
            self._latest = None
        return state

    @property
    def _limit(self) -> int:
        return min(int(len(self._slots) * _MAX_LOAD), len(self._facts))

    def _make_room(self) -> None:
        if self._limit == len(self._facts):
            # Untouched pages cost nothing.
            known, words = self._facts.shape
            larger = np.empty((int(known * _GROWTH), words), np.uint64)
            larger[:known] = self._facts
            self._facts = larger
        else:
            self._slots = moved_to_more_slots(self._slots, 2 * len(self._slots))

    def numbers_of(self, hashes: Hashes) -> Int64s:
        """The number of each key, -1 if it was never seen."""
        return find_keys(self._slots, self._facts, self.size, hashes)

    def latest_among(self, offset: Int64s) -> Int64s:
        """The rows, by rising offset, that are the latest record of a key."""
        if not len(offset):
            return np.zeros(0, np.int64)
        if self._latest is None:
            marks = self.marks
            self._latest = np.sort(np.where(marks >= 0, marks, ~marks))
        first, end = np.searchsorted(self._latest, (offset[0], offset[-1] + 1))
        wanted = self._latest[first:end]
        # Without gaps a row is found without a search.
        is_dense = offset[-1] - offset[0] == len(offset) - 1
        rows: Int64s = wanted - offset[0] if is_dense else np.searchsorted(offset, wanted)
        found: Int64s = rows[offset[rows] == wanted]
        return found

    def forget_below(self, offset: int) -> None:
        """Marks keys whose latest record lies below as having none."""
        marks = self.marks
        marks[np.where(marks >= 0, marks, ~marks) < offset] = NO_RECORD
        self._latest = None

    @property
    def marks(self) -> Int64s:
        """By number: the offset of the latest record, `~offset` for a tombstone."""
        return self._facts[: self.size, MARK_AT].view(np.int64)

    def hashes_of(self, wanted: NDArray[np.bool_]) -> Hashes:
        """Of the keys, by number."""
        rows = self._facts[: self.size]
        return Hashes(rows[wanted, 0], rows[wanted, 1])

    def contents_of(self, wanted: NDArray[np.bool_]) -> Hashes:
        if self._facts.shape[1] == FACTS_WITHOUT_CONTENT:
            raise ValueError("this fold does not hash contents")
        rows = self._facts[: self.size]
        return Hashes(rows[wanted, CONTENT_AT], rows[wanted, CONTENT_AT + 1])
