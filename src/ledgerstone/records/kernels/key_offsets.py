"""The last offset of each key, by its hash, in a table of fixed size. Pure.

The table belongs to the caller: `new_table` makes an empty one, `map_payloads` fills it, nothing
ever leaves it. A slot takes 24 bytes. All hashes in it come from one seed.
"""

from typing import Final, NamedTuple

import numpy as np

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.kernels.hashing import UInt64s
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.memory import borrow
from ledgerstone.types import INT64_MAX

SLOT_BYTES: Final = 24
# Slot numbers are made from 32 bits of a hash.
MAX_SLOTS: Final = 2**31

_SLOT_WORDS: Final = 3
_STASH_SLOTS: Final = 4096


class Hashes(NamedTuple):
    """What `hash_keys` answers."""

    low: UInt64s
    high: UInt64s


class JudgementRules(NamedTuple):
    """What the judgement of a record needs beside the record, its batch and the table."""

    latest_offset: int  # the table speaks of records up to here, of none behind it
    now_ms: int
    held_from_offset: int  # tombstones from here on do not expire
    new_horizon_ms: int  # what a batch with a tombstone and no horizon yet is going to get
    held_after_ms: int = -INT64_MAX  # but they do whose horizon is not later than this
    removable_to: int = INT64_MAX  # from here on none expires: other replicas need them


def new_table(slots: int) -> UInt64s:
    """An empty table. Its memory is zeros nobody has touched, so unused slots cost none."""
    if not 1 <= slots <= MAX_SLOTS:
        raise ValueError(f"{slots} slots, a table has 1 to {MAX_SLOTS}")
    return np.zeros(slots * _SLOT_WORDS, np.uint64)


def slots_of(table: UInt64s) -> int:
    return len(table) // _SLOT_WORDS


def moved_to_larger(table: UInt64s, slots: int) -> UInt64s:
    """What the table holds in a new one of so many slots."""
    larger = new_table(slots)
    addresses, pins = zip(*(borrow(array.data) for array in (table, larger)), strict=True)
    status = kernel("move_offsets")(addresses[0], slots_of(table), addresses[1], slots)
    del pins
    if status != 0:
        raise InvariantViolation(f"{slots_of(table)} slots do not go into {slots}: {status}")
    return larger


def grown_in_place(memory: UInt64s, slots: int, larger_slots: int) -> UInt64s:
    """The table in the first `slots` of `memory` with at least twice as many. The memory behind it
    must be zeros: that is what nobody has touched yet, and what it therefore costs nothing to have.
    """
    if not 2 * slots <= larger_slots <= slots_of(memory):
        raise ValueError(f"{slots} slots to {larger_slots} of {slots_of(memory)}")
    stash = np.empty(_STASH_SLOTS * _SLOT_WORDS, np.uint64)
    addresses, pins = zip(*(borrow(array.data) for array in (memory, stash)), strict=True)
    status = kernel("spread_offsets")(addresses[0], slots, larger_slots, addresses[1])
    del pins
    if status != 0:
        raise InvariantViolation(f"{slots} slots do not spread over {larger_slots}: {status}")
    return first_slots(memory, larger_slots)


def first_slots(memory: UInt64s, slots: int) -> UInt64s:
    """A table in a part of a larger one's memory."""
    return memory[: slots * _SLOT_WORDS]
