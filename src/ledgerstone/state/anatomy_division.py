"""Divides the bytes of a log into live, superseded and the rest. Pure.

Fed once, in log order. For each key it remembers the place and size of its latest record, so that a
later record moves those bytes out of "live" without reading them again. Keys are stored as hashes,
as everywhere in `state`. If there are too many, only one key in 2, 4, 8, … is followed and stands
for the others: earlier counts stay, later ones are multiplied. Rules in README.md, "Anatomy".
"""

from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ledgerstone.records.kernels import Batches, Columns, Hashes, hash_keys
from ledgerstone.records.kernels.windows import Int32s, Int64s
from ledgerstone.state.anatomy_plan import CLASSES, HorizonCount, SegmentDivision, Shares
from ledgerstone.state.key_table import KeyTable
from ledgerstone.state.visibility import Flags

T = TypeVar("T", bound=np.generic)

LIVE, TOMBSTONE, SUPERSEDED, UNKEYED, OTHER = range(len(CLASSES))
# A column beside the classes: all records with a key, followed or not.
_KEYED: Final = len(CLASSES)
_COLUMNS: Final = len(CLASSES) + 1
# A key takes about 90 bytes, more while tables grow: at most some 130 MB.
MAX_KEYS: Final = 1 << 20
_FIRST_ROOM: Final = 1 << 12
_GROWTH: Final = 1.5
_NOWHERE: Final = -1
# In place of a horizon's number: the record has a value.
_NO_TOMBSTONE: Final = -1
_NO_HORIZON_MS: Final = -1


class _Latest(NamedTuple):
    """Per key: the latest record's segment, its share of bytes, its horizon if a tombstone."""

    slot: Int32s
    size: Int64s
    horizon: Int32s
    row: Int32s  # scratch: the last row of the window that has the key

    @classmethod
    def with_room(cls, room: int) -> "_Latest":
        return cls(
            np.full(room, _NOWHERE, np.int32),
            np.zeros(room, np.int64),
            np.full(room, _NO_TOMBSTONE, np.int32),
            np.zeros(room, np.int32),
        )

    def moved_to(self, room: int, numbers: Int64s) -> "_Latest":
        """The keys with these numbers, in that order, as the first ones."""
        larger, count = self.with_room(room), len(numbers)
        larger.slot[:count] = self.slot[numbers]
        larger.size[:count] = self.size[numbers]
        larger.horizon[:count] = self.horizon[numbers]
        return larger


class Division:
    """For one partition. Segments are begun in order; `take` adds to the last one."""

    __slots__ = (
        *("_bytes", "_horizon_count", "_horizons", "_latest", "_max_keys", "_records"),
        *("_seed", "_table", "bases", "sampling_bits"),
    )

    def __init__(self, *, seed: bytes, max_keys: int = MAX_KEYS) -> None:
        self.bases: list[int] = []
        self.sampling_bits = 0
        self._seed = seed
        self._max_keys = max_keys
        self._table = KeyTable()
        self._latest = _Latest.with_room(_FIRST_ROOM)
        # By segment and class.
        self._bytes = np.zeros((16, _COLUMNS), np.int64)
        self._records = np.zeros((16, _COLUMNS), np.int64)
        # By the number of a horizon.
        self._horizons: dict[int, int] = {}
        self._horizon_count = np.zeros(16, np.int64)

    @property
    def weight(self) -> int:
        """How many keys each followed key stands for."""
        return 1 << self.sampling_bits

    # -- feeding -------------------------------------------------------------------------------

    def begin_segment(self, base_offset: int) -> None:
        self.bases.append(base_offset)
        if len(self.bases) > len(self._bytes):
            self._bytes = _with_rows(self._bytes, 2 * len(self._bytes))
            self._records = _with_rows(self._records, 2 * len(self._records))

    def take(self, columns: Columns, hidden: Flags) -> None:
        """Adds the records of whole batches, except those of `hidden` batches."""
        batches = columns.batches
        is_other = hidden | (batches.record_count == 0)
        self._count(OTHER, int(is_other.sum()), int(batches.size[is_other].sum()))
        if not len(columns):
            return
        share = _shares(columns)
        has_key = columns.key_length >= 0
        for kind, rows in ((_KEYED, has_key), (UNKEYED, ~has_key)):
            self._count(kind, int(rows.sum()), int(share[rows].sum()))
        low, high = hash_keys(
            columns.buffer, columns.key_start, columns.key_length, self._seed, arena=columns.arena
        )
        wanted = np.flatnonzero(has_key & self._is_followed(high))
        hashes = Hashes(low[wanted], high[wanted])
        numbers = self._table.number(hashes, columns.key_length[wanted])
        self._make_room()
        horizon = self._horizon_numbers(columns, wanted)
        self._settle(numbers, share[wanted], horizon)
        while self._table.size > self._max_keys:
            self._follow_fewer()

    def _settle(self, numbers: Int64s, share: Int64s, horizon: Int32s) -> None:
        """Each row becomes its key's latest; of several in one window, the last one wins."""
        latest, slot = self._latest, len(self.bases) - 1
        rows = np.arange(len(numbers), dtype=np.int32)
        # If an index is repeated, the last assignment wins.
        latest.row[numbers] = rows
        is_last = latest.row[numbers] == rows
        self._count_sampled(slot, SUPERSEDED, ~is_last, share)
        is_tombstone = horizon != _NO_TOMBSTONE
        self._count_sampled(slot, TOMBSTONE, is_last & is_tombstone, share)
        self._count_sampled(slot, LIVE, is_last & ~is_tombstone, share)
        self._retract(numbers[is_last])
        numbers, share, horizon = numbers[is_last], share[is_last], horizon[is_last]
        latest.slot[numbers] = slot
        latest.size[numbers] = share
        latest.horizon[numbers] = horizon
        self._count_horizons(horizon, self.weight)

    def _retract(self, numbers: Int64s) -> None:
        """The previous latest records of these keys are now superseded."""
        latest = self._latest
        before = latest.slot[numbers]
        known = before != _NOWHERE
        numbers, before = numbers[known], before[known]
        size, horizon = latest.size[numbers], latest.horizon[numbers]
        is_tombstone = horizon != _NO_TOMBSTONE
        weight = self.weight
        for kind, rows in ((LIVE, ~is_tombstone), (TOMBSTONE, is_tombstone)):
            where = before[rows]
            if len(where) == 0:
                continue
            slots = len(self.bases)
            # Sums of sizes stay far below 2**53, so that floats hold them exactly.
            sizes = np.bincount(where, size[rows], slots).astype(np.int64) * weight
            counts = np.bincount(where, minlength=slots) * weight
            for counted, amount in ((self._bytes, sizes), (self._records, counts)):
                counted[:slots, kind] -= amount
                counted[:slots, SUPERSEDED] += amount
        self._count_horizons(horizon, -weight)

    def _count(self, kind: int, records: int, size: int) -> None:
        self._records[len(self.bases) - 1, kind] += records
        self._bytes[len(self.bases) - 1, kind] += size

    def _count_sampled(self, slot: int, kind: int, rows: Flags, share: Int64s) -> None:
        self._records[slot, kind] += int(rows.sum()) * self.weight
        self._bytes[slot, kind] += int(share[rows].sum()) * self.weight

    def _count_horizons(self, horizon: Int32s, weight: int) -> None:
        rows = horizon != _NO_TOMBSTONE
        if rows.any():
            np.add.at(self._horizon_count, horizon[rows], weight)

    def _horizon_numbers(self, columns: Columns, rows: Int64s) -> Int32s:
        found = np.full(len(rows), _NO_TOMBSTONE, np.int32)
        tombstones = np.flatnonzero(columns.value_length[rows] < 0)
        if len(tombstones):
            batch = columns.batch_index[rows[tombstones]]
            times, which = np.unique(columns.batches.delete_horizon_ms[batch], return_inverse=True)
            numbers = [self._horizon_number(each) for each in times.tolist()]
            found[tombstones] = np.array(numbers, np.int32)[which]
        return found

    def _horizon_number(self, horizon_ms: int) -> int:
        number = self._horizons.setdefault(horizon_ms, len(self._horizons))
        if number == len(self._horizon_count):
            self._horizon_count = _with_rows(self._horizon_count, 2 * number)
        return number

    # -- room ----------------------------------------------------------------------------------

    def _is_followed(self, high: NDArray[np.uint64]) -> Flags:
        # Slots are chosen by the other word, so that a sample fills its table as all keys would.
        mask = np.uint64(self.weight - 1)
        followed: Flags = (high & mask) == 0
        return followed

    def _make_room(self) -> None:
        room = len(self._latest.slot)
        while room < self._table.size:
            room = int(room * _GROWTH)
        if room > len(self._latest.slot):
            self._latest = self._latest.moved_to(room, np.arange(len(self._latest.slot)))

    def _follow_fewer(self) -> None:
        self.sampling_bits += 1
        hashes, numbers = self._table.keys()
        order = np.argsort(numbers)
        followed = order[self._is_followed(hashes.high[order])]
        kept = Hashes(
            np.ascontiguousarray(hashes.low[followed]), np.ascontiguousarray(hashes.high[followed])
        )
        self._table = KeyTable()
        self._table.number(kept, np.zeros(len(followed), np.int32))
        room = max(_FIRST_ROOM, int(len(followed) * _GROWTH))
        self._latest = self._latest.moved_to(room, numbers[followed])

    # -- what it knows -------------------------------------------------------------------------

    @property
    def followed_keys(self) -> int:
        return self._table.size

    @property
    def keys(self) -> int:
        return self._table.size * self.weight

    def segments(self) -> list[SegmentDivision]:
        found = []
        for slot, base_offset in enumerate(self.bases):
            sizes = _adding_up(self._bytes[slot].tolist())
            records = _adding_up(self._records[slot].tolist())
            found.append(SegmentDivision(base_offset, sizes, records))
        return found

    def horizons(self) -> list[HorizonCount]:
        found = []
        for horizon_ms, number in sorted(self._horizons.items()):
            count = int(self._horizon_count[number])
            if count > 0:
                known_ms = None if horizon_ms == _NO_HORIZON_MS else horizon_ms
                found.append(HorizonCount(known_ms, count))
        return found


def _shares(columns: Columns) -> Int64s:
    """Each record's share of its batch; the shares add up to the batch."""
    batches: Batches = columns.batches
    batch = columns.batch_index
    start = batches.payload_start[batch]
    length = batches.payload_end[batch] - start
    end = columns.headers_start + columns.headers_length - start
    share_end = end * batches.size[batch] // length
    share = np.empty_like(share_end)
    share[0] = share_end[0]
    share[1:] = share_end[1:] - np.where(batch[1:] == batch[:-1], share_end[:-1], 0)
    return share


def _adding_up(counted: list[int]) -> Shares:
    """Estimates may be negative or not add up; the total of keyed records is exact."""
    live, tombstone, superseded, unkeyed, other, keyed = counted
    if live + tombstone + superseded != keyed or min(counted) < 0:
        live, tombstone, superseded = max(live, 0), max(tombstone, 0), max(superseded, 0)
        total = live + tombstone + superseded or 1
        live, tombstone = live * keyed // total, tombstone * keyed // total
        superseded = keyed - live - tombstone
    return Shares(live, tombstone, superseded, unkeyed, other)


def _with_rows(array: NDArray[T], rows: int) -> NDArray[T]:
    larger = np.zeros((rows, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
