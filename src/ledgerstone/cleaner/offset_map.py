"""The offset of the latest record of each key, as far as one pass has looked. Pure.

Keys are known by a hash of 128 bits under a seed drawn for the pass, never by their bytes: nobody
who writes records can make two keys meet. A slot takes 24 bytes, so memory is what bounds a pass;
what does not fit is left to the next one. The table itself is in records.kernels.
"""

from typing import Final

from ledgerstone.records.kernels import (
    Columns,
    Hashes,
    Judged,
    JudgementRules,
    find_offsets,
    hash_keys,
    judge_records,
    moved_to_larger,
    new_table,
    put_offsets,
)
from ledgerstone.records.kernels.key_offsets import slots_of
from ledgerstone.types import Buffer

SLOT_BYTES: Final = 24
# Most logs have far fewer keys than records. A table that fits the processor's cache is several
# times as fast as one that does not, so it starts small and grows in few large steps.
FIRST_SLOTS: Final = 1 << 15
_GROWTH: Final = 4


class OffsetMap:
    """Filled in the order of the log, then asked. Nothing is ever taken out.

    Invariant: for every record at or below `latest_offset` and not below the first one put, the map
    holds its key with an offset that is not lower. Of records behind it the map knows nothing.

    `slots` and `limit` are what the memory allows; the table behind them grows up to that. While it
    moves to its full size, the one before takes up to an eighth of that on top.
    """

    __slots__ = ("_seed", "_table", "latest_offset", "limit", "size", "slots")

    def __init__(
        self, memory_bytes: int, *, load_factor: float, seed: bytes, latest_offset: int
    ) -> None:
        self.slots = memory_bytes // SLOT_BYTES
        self.limit = min(int(self.slots * load_factor), self.slots)
        if self.limit < 1:
            raise ValueError(
                f"{memory_bytes} bytes with load factor {load_factor} hold no key of {SLOT_BYTES}"
            )
        self.size = 0
        self.latest_offset = latest_offset
        self._seed = seed
        self._table = new_table(min(self.slots, FIRST_SLOTS))

    @property
    def utilization(self) -> float:
        return self.size / self.slots

    def put(self, columns: Columns) -> int:
        """Puts a window's records in order; returns how many, fewer than all once it is full.

        The first record with a key that finds the map full ends it, even if that key is there:
        the offset in the map would otherwise lie behind `latest_offset`."""
        hashes = self._hash(columns)
        taken = 0
        while True:
            report = put_offsets(
                self._table,
                hashes,
                columns,
                start=taken,
                size=self.size,
                limit=min(self.limit, self._room),
            )
            self.size, taken = report.size, report.taken
            if not report.full or self.size >= self.limit:
                return taken
            self._grow()

    @property
    def _room(self) -> int:
        """Keys the table takes before it grows; at its full size only the limit counts."""
        slots = slots_of(self._table)
        return slots // 2 if slots < self.slots else slots

    def _grow(self) -> None:
        slots = slots_of(self._table) * _GROWTH
        # One more step of the same kind would pass the full size: go there at once.
        slots = slots if slots * 2 * _GROWTH <= self.slots else self.slots
        self._table = moved_to_larger(self._table, slots)

    def judge(
        self, columns: Columns, *, now_ms: int, held_from_offset: int, new_horizon_ms: int
    ) -> Judged:
        """Which of a window's records are kept, by the rules of README.md."""
        rules = JudgementRules(self.latest_offset, now_ms, held_from_offset, new_horizon_ms)
        return judge_records(self._table, self._hash(columns), columns, rules)

    def offsets_of(self, columns: Columns) -> list[int]:
        """The latest offset of each record's key, -1 where the map has none."""
        offsets: list[int] = find_offsets(self._table, self._hash(columns)).tolist()
        return offsets

    def _hash(self, columns: Columns) -> Hashes:
        source: Buffer = columns.buffer
        low, high = hash_keys(
            source, columns.key_start, columns.key_length, self._seed, arena=columns.arena
        )
        return Hashes(low, high)
