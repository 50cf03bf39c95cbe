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
    new_table,
    put_offsets,
)
from ledgerstone.types import Buffer

SLOT_BYTES: Final = 24


def _roomy(most_keys: int, load_factor: float) -> int:
    """Slots for so many keys that none of them is ever turned away, and half of them stay empty.

    Touching memory for the first time costs more than a search in it: a small pass should not walk
    all over a large table."""
    return max(2 * most_keys, int(most_keys / load_factor) + 1, 1)


class OffsetMap:
    """Filled in the order of the log, then asked. Nothing is ever taken out.

    Invariant: for every record at or below `latest_offset` and not below the first one put, the map
    holds its key with an offset that is not lower. Of records behind it the map knows nothing.

    `slots` and `limit` are what the memory allows; with `most_keys`, the number of offsets that are
    going to be put at most, the table behind them is no larger than it needs to be.
    """

    __slots__ = ("_seed", "_table", "latest_offset", "limit", "size", "slots")

    def __init__(
        self,
        memory_bytes: int,
        *,
        load_factor: float,
        seed: bytes,
        latest_offset: int,
        most_keys: int,
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
        self._table = new_table(min(self.slots, _roomy(most_keys, load_factor)))

    @property
    def utilization(self) -> float:
        return self.size / self.slots

    def put(self, columns: Columns) -> int:
        """Puts a window's records in order; returns how many, fewer than all once it is full.

        The first record with a key that finds the map full ends it, even if that key is there:
        the offset in the map would otherwise lie behind `latest_offset`."""
        report = put_offsets(
            self._table, self._hash(columns), columns, size=self.size, limit=self.limit
        )
        self.size = report.size
        return report.taken

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
