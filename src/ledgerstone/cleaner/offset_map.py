"""The offset of the latest record of each key, as far as one pass has read. Pure.

Keys are stored as 128-bit hashes under a seed drawn for the pass, never as bytes: writers cannot
make two keys collide. A slot takes 24 bytes, so memory bounds a pass; the next pass does the rest.
The table itself is in records.kernels.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledgerstone.records.compression import Codecs
from ledgerstone.records.kernels import (
    Batches,
    CleanedPayloads,
    JudgementRules,
    Payloads,
    PutState,
    Scratch,
    clean_payloads,
    map_payloads,
    new_table,
)
from ledgerstone.records.kernels.cleaning import seed_words
from ledgerstone.records.kernels.key_offsets import first_slots, grown_in_place, slots_of
from ledgerstone.records.kernels.newest import NewestBits, discard_superseded
from ledgerstone.types import INT64_MAX

SLOT_BYTES: Final = 24
# Most logs have far fewer keys than records. A table that fits the processor's cache is several
# times faster, and untouched pages cost nothing, so it starts with at least this many slots and
# doubles.
FIRST_SLOTS: Final = 1 << 15
# The share of slots that fill before the table grows: longer probes cost less than new memory.
_FILLED: Final = 5 / 8


class FullAt(NamedTuple):
    """The first record that did not fit: its batch, and how much of that batch went in."""

    batch: int  # in the window
    last_put_offset: int | None


class OffsetMap:
    """Filled in log order, then queried. Nothing is ever removed.

    Invariant: for every record at or below `latest_offset` and not below the first one put, the map
    holds its key with an offset that is not lower. It knows nothing of later records.

    `slots` and `limit` are what the memory allows; the table grows up to that within the same
    memory. Beside the table there is a bit for each offset up to `end_offset`, set where the newest
    record of a key lies. For data that went in, it says the same as the table.
    """

    __slots__ = (
        *("_halvings", "_memory", "_newest", "_no_bits", "_scratch", "_seed", "_state", "_table"),
        *("latest_offset", "limit", "size", "slots"),
    )

    def __init__(
        self,
        memory_bytes: int,
        scratch: Scratch,
        *,
        load_factor: float,
        seed: bytes,
        latest_offset: int,
        end_offset: int = 0,
    ) -> None:
        self.slots = memory_bytes // SLOT_BYTES
        self.limit = min(int(self.slots * load_factor), self.slots)
        if self.limit < 1:
            raise ValueError(
                f"{memory_bytes} bytes with load factor {load_factor} hold no key of {SLOT_BYTES}"
            )
        self.size = 0
        self.latest_offset = latest_offset
        self._seed = seed_words(seed)
        self._scratch = scratch
        self._newest = NewestBits(latest_offset + 1, end_offset)
        self._no_bits = NewestBits(0, 0)
        self._state = PutState(self._newest)
        self._memory = new_table(self.slots)
        # The full size halved several times, so that each step doubles the table.
        self._halvings = max(0, (self.slots // FIRST_SLOTS).bit_length() - 1)
        self._table = first_slots(self._memory, self.slots >> self._halvings)

    @property
    def utilization(self) -> float:
        return self.size / self.slots

    def put(
        self, payloads: Payloads, actions: NDArray[np.uint8], *, min_offset: int | None = None
    ) -> FullAt | None:
        """Puts the records of all batches that are not DISCARDed, in order; returns where it is
        full.

        The first record with a key that finds the map full ends it, even if the map has that key:
        the offset in the map would otherwise lie past `latest_offset`."""
        state = self._state
        state.restart(self.size, payloads.first)
        while True:
            full_at = map_payloads(
                payloads,
                actions,
                self._scratch,
                self._table,
                self._seed,
                state,
                self._newest,
                limit=min(self.limit, self._room),
                min_offset=min_offset,
            )
            self.size = state.size
            if full_at is None:
                return None
            if self.size >= self.limit:
                batch, offset = state.last_put
                return FullAt(full_at, offset if batch == full_at else None)
            self._grow()

    @property
    def _room(self) -> int:
        """Keys the table takes before it grows; at its full size only the limit counts."""
        slots = slots_of(self._table)
        return slots if self._halvings == 0 else int(slots * _FILLED)

    def _grow(self) -> None:
        self._halvings -= 1
        larger = self.slots >> self._halvings
        self._table = grown_in_place(self._memory, slots_of(self._table), larger)

    def discard_superseded(self, batches: Batches, actions: NDArray[np.uint8]) -> int | None:
        """For batches whose records all went in: DISCARDs those without a newest record of any key,
        and returns their number of records. None if the keys are needed to decide."""
        if not self._state.bits_hold:
            return None
        return discard_superseded(batches, actions, self._newest, self.latest_offset)

    def clean(
        self,
        payloads: Payloads,
        actions: NDArray[np.uint8],
        *,
        by_bits: bool = False,
        now_ms: int,
        held_from_offset: int,
        new_horizon_ms: int,
        held_after_ms: int = -INT64_MAX,
        removable_to: int = INT64_MAX,
        out: NDArray[np.uint8],
        codecs: Codecs,
    ) -> CleanedPayloads:
        """Writes the rest of the batches to `out`, by the rules of README.md. `by_bits` if
        `discard_superseded` could decide."""
        rules = JudgementRules(
            self.latest_offset,
            now_ms,
            held_from_offset,
            new_horizon_ms,
            held_after_ms,
            removable_to,
        )
        return clean_payloads(
            payloads,
            actions,
            self._scratch,
            self._table,
            self._seed,
            rules,
            self._newest if by_bits else self._no_bits,
            out=out,
            codecs=codecs,
        )
