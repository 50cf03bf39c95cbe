"""Keys numbered as they come. Pure.

The table is one of `key_offsets.new_table`, filled by `number_keys` alone: a slot holds the number
of a key, and what is known of keys lies in the caller's arrays by that number. Nothing leaves it.
"""

import ctypes
from typing import Final, NamedTuple

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.kernels.descriptors import NumberCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.hashing import UInt64s
from ledgerstone.records.kernels.key_offsets import Hashes, slots_of
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.windows import Int32s, Int64s

_FULL: Final = 1


class NumberReport(NamedTuple):
    size: int  # keys in the table
    done: int  # rows that have their number, all of them unless the table is full


def number_keys(
    table: UInt64s,
    hashes: Hashes,
    key_length: Int32s,
    numbers: Int64s,
    *,
    start: int,
    size: int,
    limit: int,
) -> NumberReport:
    """Fills `numbers` from `start` on, -1 without a key; ends before the first new key once the
    table has `limit`. Numbers are [0, size), in the order in which keys are first seen."""
    count = len(numbers)
    if not len(hashes.low) == len(hashes.high) == len(key_length) == count:
        raise ValueError(f"{len(hashes.low)} hashes, {len(key_length)} lengths, {count} numbers")
    state = (ctypes.c_int64 * 2)(size, 0)
    call = filled(
        NumberCall,
        table=table,
        slots=slots_of(table),
        low=hashes.low,
        high=hashes.high,
        count=count,
        number=numbers,
        key_length=key_length,
        start=start,
        limit=limit,
        state=state,
    )
    status = kernel("number_keys")(call)
    if status not in (0, _FULL):
        raise InvariantViolation(f"{state[0]} keys leave no slot of {slots_of(table)}: {status}")
    return NumberReport(state[0], state[1])
