"""One partition folded to the latest record of each key. Pure; rules in README.md.

A `Fold` is fed raw batches in the order of the log, and knows afterwards, for each key, the offset
of its latest record, whether that is a tombstone, and a hash of what it says. It keeps no bytes of
records: whoever wants those shows it the batches again and gets the ones that survived.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ledgerstone.records.kernels import Batches, Columns, Hashes, hash_keys, scan
from ledgerstone.records.kernels.folding import hash_contents, mark_rows
from ledgerstone.records.kernels.hashing import UInt64s
from ledgerstone.records.kernels.windows import Bytes, Int64s
from ledgerstone.state.content import CONTENT_KEY, plain_content_hash, sum_of
from ledgerstone.state.key_table import KeyTable
from ledgerstone.state.visibility import (
    Flags,
    check_order,
    hidden_batches,
    taken,
    walk_pieces,
)
from ledgerstone.types import INT64_MAX, AbortedTxn, Buffer

T = TypeVar("T", bound=np.generic)

# The mark of a key that has no record, not yet or no more: no offset is that large.
_NO_RECORD: Final = ~INT64_MAX
_FIRST_ROOM: Final = 1 << 12
_GROWTH: Final = 1.5


@dataclass(slots=True)
class FoldCounts:
    """What went by. `records` are those a reader may see; the hidden ones are counted apart."""

    batches: int = 0
    bytes: int = 0
    records: int = 0
    records_without_key: int = 0
    tombstones: int = 0
    deletes_applied: int = 0  # tombstones of a key that was live
    recreated: int = 0  # values of a key that was deleted
    control_batches: int = 0
    aborted_batches: int = 0
    missing: int = 0  # offsets without a record, markers and aborted batches left aside

    def add(self, other: "FoldCounts") -> None:
        for field in fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)


class KeyStatus(Enum):
    LIVE = "live"
    DELETED = "deleted"
    NEVER_SEEN = "never seen"


class Found(NamedTuple):
    status: KeyStatus
    offset: int | None  # of the key's latest record


class Fold:
    """Fed from `next_offset` on, in order. Folds of one topic share a seed.

    Of each key `_mark` has the offset of its latest record, `~offset` if that is a tombstone; the
    content hash means something only where the key is live.
    """

    __slots__ = (
        "_high", "_low", "_mark", "_seed", "_table", "counts", "leader_epoch", "next_offset"
    )  # fmt: skip

    def __init__(self, *, seed: bytes, start_offset: int = 0) -> None:
        self.next_offset = start_offset
        self.leader_epoch = -1  # of the last batch
        self.counts = FoldCounts()
        self._seed = seed
        self._table = KeyTable()
        self._mark: Int64s = np.empty(_FIRST_ROOM, np.int64)
        self._low: UInt64s = np.empty(_FIRST_ROOM, np.uint64)
        self._high: UInt64s = np.empty(_FIRST_ROOM, np.uint64)

    # -- pass one ------------------------------------------------------------------------------

    def feed(
        self,
        batches: Buffer,
        *,
        end_offset: int = INT64_MAX,
        aborted: Sequence[AbortedTxn] = (),
    ) -> None:
        """Folds the records in [next_offset, end_offset); the buffer holds whole batches.

        `aborted` is the list that came with these batches; a reader of everything passes none."""
        found = scan(batches)
        check_order(found)
        start_offset = self.next_offset
        if not len(found) or found.last_offset[-1] < start_offset:
            return
        hidden = hidden_batches(batches, found, aborted)
        outside = (found.last_offset < start_offset) | (found.base_offset >= end_offset)
        rows = 0
        for columns in walk_pieces(batches, found, hidden | outside):
            in_range = (columns.offset >= start_offset) & (columns.offset < end_offset)
            inside = columns if in_range.all() else taken(columns, in_range)
            rows += len(inside)
            self._take(inside)
        self._account(found, hidden, outside, rows, end_offset)

    def _account(
        self, found: Batches, hidden: Flags, outside: Flags, rows: int, end_offset: int
    ) -> None:
        counts, start = self.counts, self.next_offset
        within = np.minimum(found.last_offset + 1, end_offset) - np.maximum(
            found.base_offset, start
        )
        inside = ~outside
        counts.batches += int(inside.sum())
        counts.bytes += int(found.size[inside].sum())
        counts.records += rows
        control = found.is_control & inside
        counts.control_batches += int(control.sum())
        counts.aborted_batches += int((hidden & inside & ~control).sum())
        self.next_offset = min(int(found.last_offset[-1]) + 1, end_offset)
        explained = int(within[hidden & inside].sum())
        counts.missing += self.next_offset - start - explained - rows
        if inside.any():
            self.leader_epoch = int(found.leader_epoch[inside][-1])

    def _take(self, columns: Columns) -> None:
        known = self._table.size
        numbers = self._table.number(self._hash(columns), columns.key_length)
        self._make_room()
        self._mark[known : self._table.size] = _NO_RECORD
        counts = self.counts
        counts.records_without_key += int((numbers < 0).sum())
        turns = mark_rows(columns, numbers, self._mark)
        counts.tombstones += turns.tombstones
        counts.deletes_applied += turns.deletes_applied
        counts.recreated += turns.recreated
        contents = Hashes(self._low, self._high)
        for row in hash_contents(columns, numbers, self._mark, contents, CONTENT_KEY).tolist():
            low, high = plain_content_hash(columns, row)
            self._low[numbers[row]], self._high[numbers[row]] = low, high

    def _make_room(self) -> None:
        room = len(self._mark)
        while room < self._table.size:
            room = int(room * _GROWTH)
        if room > len(self._mark):
            # Memory nobody has written to yet takes none.
            self._mark = _grown(self._mark, room)
            self._low = _grown(self._low, room)
            self._high = _grown(self._high, room)

    def _hash(self, columns: Columns) -> Hashes:
        low, high = hash_keys(
            columns.buffer, columns.key_start, columns.key_length, self._seed, arena=columns.arena
        )
        return Hashes(low, high)

    def load(self, batches: Buffer) -> None:
        """Takes records of which no two have the same key, as a snapshot holds them."""
        found = scan(batches)
        check_order(found)
        for columns in walk_pieces(batches, found, found.is_control):
            self._take(columns)
            if len(columns):
                self.next_offset = max(self.next_offset, int(columns.offset[-1]) + 1)

    def resume(self, *, next_offset: int, leader_epoch: int, counts: FoldCounts) -> None:
        """Goes on behind what was loaded; the rest is as it was when that was written."""
        if next_offset < self.next_offset:
            raise ValueError(f"{next_offset} lies below {self.next_offset}, which was loaded")
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.counts = counts

    def forget_below(self, offset: int) -> None:
        """Forgets keys whose latest record lies below: the log does not begin there any more."""
        marks = self._marks
        marks[np.where(marks >= 0, marks, ~marks) < offset] = _NO_RECORD

    # -- what it knows -------------------------------------------------------------------------

    @property
    def live_keys(self) -> int:
        return int((self._marks >= 0).sum())

    @property
    def deleted_keys(self) -> int:
        """Keys whose latest record is a tombstone."""
        return int(((self._marks < 0) & (self._marks != _NO_RECORD)).sum())

    @property
    def _marks(self) -> Int64s:
        return self._mark[: self._table.size]

    @property
    def checksum(self) -> int:
        """The sum of the content hashes of all live keys, modulo 2**128."""
        live = self._marks >= 0
        size = self._table.size
        return sum_of(Hashes(self._low[:size][live], self._high[:size][live]))

    def live_hashes(self) -> Hashes:
        hashes, numbers = self._table.keys()
        live = self._mark[numbers] >= 0
        return Hashes(hashes.low[live], hashes.high[live])

    def lookup(self, key: bytes) -> Found:
        start, length = np.zeros(1, np.int64), np.array([len(key)], np.int32)
        (number,) = self._table.numbers_of(Hashes(*hash_keys(key, start, length, self._seed)))
        mark = _NO_RECORD if number < 0 else int(self._mark[number])
        if mark == _NO_RECORD:
            return Found(KeyStatus.NEVER_SEEN, None)
        return Found(KeyStatus.LIVE, mark) if mark >= 0 else Found(KeyStatus.DELETED, ~mark)

    # -- pass two ------------------------------------------------------------------------------

    def judge(self, batches: Buffer, *, start_offset: int = 0) -> Iterator[tuple[Columns, Bytes]]:
        """Whole batches as columns, with a flag for each record that is its key's latest.

        An offset is never used twice, so nothing has to be known about transactions here."""
        found = scan(batches)
        check_order(found)
        for columns in walk_pieces(batches, found, found.is_control):
            latest = self._is_latest(columns) & (columns.offset >= start_offset)
            yield columns, latest.view(np.uint8)

    def _is_latest(self, columns: Columns) -> Flags:
        numbers = self._table.numbers_of(self._hash(columns))
        known = (numbers >= 0) & (columns.key_length >= 0)
        mark = self._mark[np.where(known, numbers, 0)]
        latest: Flags = known & (np.where(mark >= 0, mark, ~mark) == columns.offset)
        return latest

    def survivors(
        self, batches: Buffer, *, start_offset: int = 0, tombstones: bool = False
    ) -> Iterator[Columns]:
        """The latest record of each live key among these; with `tombstones` of the deleted too.

        The columns go to `records.arrow` as they are."""
        for columns, keep in self.judge(batches, start_offset=start_offset):
            wanted = keep.view(np.bool_)
            if not tombstones:
                wanted = wanted & (columns.value_length >= 0)
            yield taken(columns, wanted)


def _grown(array: NDArray[T], room: int) -> NDArray[T]:
    larger = np.empty(room, array.dtype)
    larger[: len(array)] = array
    return larger
