"""One partition folded to the latest record of each key. Pure; rules in README.md.

A `Fold` is fed raw batches in log order. Afterwards it knows, for each key, the offset of its
latest record, whether that is a tombstone, and a hash of its content. It keeps no bytes of records:
to get those, show it the batches again, and it picks the survivors.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from ledgerstone.dataclasses import dataclass, fields
from ledgerstone.records.batch import CODEC_MASK
from ledgerstone.records.compression import DEFAULT_DECOMPRESSION_LIMIT, STORED_LIMIT
from ledgerstone.records.kernels import Arena, Batches, Columns, Hashes, hash_keys, scan
from ledgerstone.records.kernels.folding import FoldColumns, FoldPlan, FoldState, check_crcs
from ledgerstone.records.kernels.payloads import check_declared_counts
from ledgerstone.records.kernels.rewriting import BatchAction
from ledgerstone.records.kernels.windows import Bytes
from ledgerstone.state.content import CONTENT_KEY, sum_of
from ledgerstone.state.key_facts import NO_RECORD, KeyFacts
from ledgerstone.state.visibility import (
    Flags,
    check_order,
    hidden_batches,
    taken,
    walk_pieces,
)
from ledgerstone.types import INT64_MAX, AbortedTxn, Buffer


@dataclass(slots=True)
class FoldCounts:
    """Counts of a fold. `records` are those a reader may see; hidden ones count separately."""

    batches: int = 0
    bytes: int = 0
    records: int = 0
    records_without_key: int = 0
    tombstones: int = 0
    deletes_applied: int = 0  # tombstones of a key that was live
    recreated: int = 0  # values of a key that was deleted
    control_batches: int = 0
    aborted_batches: int = 0
    missing: int = 0  # offsets without a record, not counting markers and aborted batches

    def add(self, other: "FoldCounts") -> None:
        for field in fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)


class KeyStatus(Enum):
    LIVE = "live"
    DELETED = "deleted"
    NEVER_SEEN = "never seen"


class FoundKey(NamedTuple):
    status: KeyStatus
    offset: int | None  # of the key's latest record


class Fold:
    """Fed from `next_offset` on, in order. Folds of one topic share a seed.

    After an exception a fold is unusable, since it has taken some of the batches. Without contents
    there is no checksum, and half the work.
    """

    __slots__ = ("_columns", "_keys", "_seed", "counts", "leader_epoch", "next_offset")

    def __init__(self, *, seed: bytes, start_offset: int = 0, with_contents: bool = True) -> None:
        self.next_offset = start_offset
        self.leader_epoch = -1  # of the last batch
        self.counts = FoldCounts()
        self._seed = seed
        self._keys = KeyFacts(with_contents=with_contents)
        self._columns = FoldColumns()

    # -- pass one ------------------------------------------------------------------------------

    def feed(
        self,
        batches: Buffer,
        *,
        end_offset: int = INT64_MAX,
        aborted: Sequence[AbortedTxn] = (),
    ) -> None:
        """Folds the records in [next_offset, end_offset); the buffer holds whole batches.

        `aborted` is the list that came with these batches; empty to read uncommitted records."""
        found = scan(batches)
        check_order(found)
        start_offset = self.next_offset
        if not len(found) or found.last_offset[-1] < start_offset:
            return
        hidden = hidden_batches(batches, found, aborted)
        outside = (found.last_offset < start_offset) | (found.base_offset >= end_offset)
        records = self.counts.records
        self._take(batches, found, hidden | outside, start_offset, end_offset)
        self._account(found, hidden, outside, self.counts.records - records, end_offset)

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
        control = found.is_control & inside
        counts.control_batches += int(control.sum())
        counts.aborted_batches += int((hidden & inside & ~control).sum())
        self.next_offset = min(int(found.last_offset[-1]) + 1, end_offset)
        explained = int(within[hidden & inside].sum())
        counts.missing += self.next_offset - start - explained - rows
        if inside.any():
            self.leader_epoch = int(found.leader_epoch[inside][-1])

    def _take(
        self, data: Buffer, found: Batches, skip: Flags, start_offset: int, end_offset: int
    ) -> int:
        """Folds the batches that are not skipped, and returns the offset of their last record."""
        actions = skip.astype(np.uint8) * np.uint8(BatchAction.DISCARD)
        compressed = bool(((found.attributes & CODEC_MASK) != 0)[~skip].any())
        if compressed:
            # Before anything is decompressed.
            check_crcs(data, found, actions)
        plan = FoldPlan(start_offset, end_offset, self._seed, CONTENT_KEY, not compressed)
        # More than one piece only if decompressed payloads take too much memory.
        arena = Arena(DEFAULT_DECOMPRESSION_LIMIT // 2)
        first, last_seen = 0, -1
        while first < len(found):
            payloads = arena.open(
                data,
                found,
                actions,
                first=first,
                payload_limit=STORED_LIMIT,
                has_compressed=compressed,
            )
            check_declared_counts(payloads, actions)
            state = self._keys.fold(payloads, actions, plan, self._columns, last_seen=last_seen)
            self._count(state)
            first, last_seen = payloads.end, state.last_seen
        return last_seen

    def _count(self, state: FoldState) -> None:
        counts, folded = self.counts, state.counts
        counts.records += folded.records
        counts.records_without_key += folded.without_key
        counts.tombstones += folded.tombstones
        counts.deletes_applied += folded.deletes_applied
        counts.recreated += folded.recreated

    def load(self, batches: Buffer) -> None:
        """Takes records with distinct keys, as a snapshot holds them."""
        found = scan(batches)
        check_order(found)
        last = self._take(batches, found, found.is_control, 0, INT64_MAX)
        self.next_offset = max(self.next_offset, last + 1)

    def resume(self, *, next_offset: int, leader_epoch: int, counts: FoldCounts) -> None:
        """Continues after the loaded records, with the counts of the snapshot."""
        if next_offset < self.next_offset:
            raise ValueError(f"{next_offset} is below {self.next_offset}, which was loaded")
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.counts = counts

    def forget_below(self, offset: int) -> None:
        """Forgets keys whose latest record lies below the new start of the log."""
        self._keys.forget_below(offset)

    # -- what it knows -------------------------------------------------------------------------

    @property
    def live_keys(self) -> int:
        return int((self._keys.marks >= 0).sum())

    @property
    def deleted_keys(self) -> int:
        """Keys whose latest record is a tombstone."""
        marks = self._keys.marks
        return int(((marks < 0) & (marks != NO_RECORD)).sum())

    @property
    def checksum(self) -> int:
        """The sum of the content hashes of all live keys, modulo 2**128."""
        return sum_of(self._keys.contents_of(self._keys.marks >= 0))

    def live_hashes(self) -> Hashes:
        return self._keys.hashes_of(self._keys.marks >= 0)

    def lookup(self, key: bytes) -> FoundKey:
        start, length = np.zeros(1, np.int64), np.array([len(key)], np.int32)
        (number,) = self._keys.numbers_of(Hashes(*hash_keys(key, start, length, self._seed)))
        mark = NO_RECORD if number < 0 else int(self._keys.marks[number])
        if mark == NO_RECORD:
            return FoundKey(KeyStatus.NEVER_SEEN, None)
        return FoundKey(KeyStatus.LIVE, mark) if mark >= 0 else FoundKey(KeyStatus.DELETED, ~mark)

    # -- pass two ------------------------------------------------------------------------------

    def judge(self, batches: Buffer, *, start_offset: int = 0) -> Iterator[tuple[Columns, Bytes]]:
        """Whole batches as columns, with a flag for each record that is its key's latest.

        Offsets are unique, so transactions do not matter here."""
        found = scan(batches)
        check_order(found)
        for columns in walk_pieces(batches, found, found.is_control):
            latest = self._is_latest(columns) & (columns.offset >= start_offset)
            yield columns, latest.view(np.uint8)

    def _is_latest(self, columns: Columns) -> Flags:
        latest = np.zeros(len(columns), np.bool_)
        # Usually few rows are the latest record of a key, and only those need hashing.
        candidates = self._keys.latest_among(columns.offset)
        start, length = columns.key_start[candidates], columns.key_length[candidates]
        low, high = hash_keys(columns.buffer, start, length, self._seed, arena=columns.arena)
        numbers = self._keys.numbers_of(Hashes(low, high))
        known = (numbers >= 0) & (length >= 0)
        candidates, numbers = candidates[known], numbers[known]
        mark = self._keys.marks[numbers]
        latest[candidates] = np.where(mark >= 0, mark, ~mark) == columns.offset[candidates]
        return latest

    def survivors(
        self, batches: Buffer, *, start_offset: int = 0, tombstones: bool = False
    ) -> Iterator[Columns]:
        """The latest record of each live key among these; with `tombstones`, of deleted keys too.

        The columns can go to `records.arrow` unchanged."""
        for columns, keep in self.judge(batches, start_offset=start_offset):
            wanted = keep.view(np.bool_)
            if not tombstones:
                wanted = wanted & (columns.value_length >= 0)
            yield taken(columns, wanted)
