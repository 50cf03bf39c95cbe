"""Keys numbered as they come, and the latest record of each. Pure.

The table is one of `key_offsets.new_table`, filled by `number_keys` alone: a slot holds the number
of a key, and what is known of keys lies in the caller's arrays by that number. Nothing leaves it.
"""

import ctypes
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.kernels.hashing import SEED_SIZE, UInt64s
from ledgerstone.records.kernels.key_offsets import Hashes, slots_of
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.memory import Address, borrow
from ledgerstone.records.kernels.windows import Columns, Int32s, Int64s

_FULL: Final = 1


class NumberReport(NamedTuple):
    size: int  # keys in the table
    done: int  # rows that have their number, all of them unless the table is full


class Turns(NamedTuple):
    """What rows did to the keys they are of."""

    tombstones: int
    deletes_applied: int  # tombstones of a key that was live
    recreated: int  # values of a key that was deleted


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
    arrays = (table, hashes.low, hashes.high, key_length, numbers)
    (slots, low, high, length, number), pins = _borrow(*arrays)
    state = (ctypes.c_int64 * 2)(size, 0)
    status = kernel("number_keys")(
        slots, slots_of(table), limit, low, high, length, start, count, number, state
    )
    del pins
    if status not in (0, _FULL):
        raise InvariantViolation(f"{state[0]} keys leave no slot of {slots_of(table)}: {status}")
    return NumberReport(state[0], state[1])


def mark_rows(columns: Columns, numbers: Int64s, marks: Int64s) -> Turns:
    """Makes each row its key's latest, in order; the mark is its offset, `~offset` a delete's."""
    if len(numbers) != len(columns):
        raise ValueError(f"{len(numbers)} numbers for {len(columns)} rows")
    arrays = (numbers, columns.offset, columns.value_length, marks)
    (number, offset, value_length, mark), pins = _borrow(*arrays)
    counts = (ctypes.c_int64 * 3)()
    status = kernel("mark_rows")(
        number, offset, value_length, len(numbers), mark, len(marks), counts
    )
    del pins
    if status != 0:
        raise InvariantViolation(f"a number above {len(marks)} marks: {status}")
    return Turns(*counts)


def hash_contents(
    columns: Columns, numbers: Int64s, marks: Int64s, contents: Hashes, seed: bytes
) -> Int64s:
    """Hashes key and value of each row that is its key's latest and live, into `contents` by its
    number. Returns the rows it left out: their lengths took more bytes than they need."""
    if len(seed) != SEED_SIZE:
        raise ValueError(f"a seed has {SEED_SIZE} bytes, not {len(seed)}")
    if len(numbers) != len(columns) or not len(contents.low) == len(contents.high) == len(marks):
        raise ValueError(f"{len(numbers)} numbers, {len(columns)} rows, {len(marks)} marks")
    odd = np.empty(len(columns), np.int64)
    spans = (columns.offset, columns.key_start, columns.key_length)
    values = (columns.value_start, columns.value_length)
    addresses, pins = _borrow(*spans, *values, numbers, marks, contents.low, contents.high, odd)
    buffer, buffer_pin = borrow(columns.buffer)
    arena, arena_pin = borrow(columns.arena)
    report = (ctypes.c_int64 * 1)()
    status = kernel("hash_contents")(
        buffer,
        columns.split,
        arena,
        columns.split + memoryview(columns.arena).nbytes,
        *addresses[:6],
        len(numbers),
        addresses[6],
        len(marks),
        int.from_bytes(seed[:8], "little"),
        int.from_bytes(seed[8:], "little"),
        *addresses[7:],
        report,
    )
    del pins, buffer_pin, arena_pin
    if status != 0:
        raise InvariantViolation(f"row {report[0]} lies outside its window: {status}")
    return odd[: report[0]]


def _borrow(*arrays: NDArray[np.generic]) -> tuple[tuple[Address, ...], object]:
    for array in arrays:
        if not array.flags.c_contiguous:
            raise ValueError("a column with gaps")
    addresses, pins = zip(*(borrow(array.data) for array in arrays), strict=True)
    return addresses, pins
