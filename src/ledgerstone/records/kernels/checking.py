"""Which batches a window begins with, and whether they may be believed. Pure.

Structure, CRCs, and offsets that only rise. The kernel computes CRCs where the processor has an
instruction for it, the package crc32c elsewhere.
"""

from typing import Final, NamedTuple, NoReturn

import numpy as np

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import ATTRIBUTES_AT, HEADER_SIZE
from ledgerstone.records.crc import crc32c
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.memory import Pinned
from ledgerstone.records.kernels.windows import ROW_FIELDS, Batches, scan
from ledgerstone.types import Buffer

_FIRST_CAPACITY: Final = 256
_REPORT_FIELDS: Final = 8
_BAD_CRC: Final = 1
_BAD_HEADER: Final = 3


class Checked(NamedTuple):
    """Sound batches, and what their headers say together."""

    batches: Batches
    attributes: int  # every bit that any of them has
    records: int
    most_records: int  # in one batch


class BatchNotBelieved(CorruptRecord):
    """`position` is that of the batch in the buffer."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


class BatchChecker:
    """Checks window after window, and writes about each into the same rows: what it answers is good
    until it is asked again."""

    __slots__ = ("_buffer", "_report", "_report_at", "_rows", "_rows_are_full", "_rows_at")

    def __init__(self) -> None:
        self._rows = np.empty((ROW_FIELDS, _FIRST_CAPACITY), np.int64)
        self._rows_are_full = False
        self._report = np.empty(_REPORT_FIELDS, np.int64)
        self._buffer, self._rows_at, self._report_at = Pinned(), Pinned(), Pinned()

    def check(self, buffer: Buffer, *, previous_last: int, end_offset: int) -> Checked:
        """The complete batches a buffer begins with, as many as there are rows for; of more there
        will be the next time. Offsets must rise from behind `previous_last` and stay below
        `end_offset`."""
        size = memoryview(buffer).nbytes
        if self._rows_are_full:
            self._make_room(size)
        rows = self._rows
        capacity = rows.shape[1]
        status = kernel("check_batches")(
            self._buffer.at(buffer),
            size,
            self._rows_at.at(rows),
            capacity,
            previous_last,
            end_offset,
            self._report_at.at(self._report),
        )
        count, consumed, is_full, found, *facts, crcs_checked = self._report.tolist()
        self._rows_are_full = is_full != 0
        batches = Batches(rows[:, :count], consumed, rows)
        if not crcs_checked:
            _check_crcs(memoryview(buffer).cast("B"), batches)
        if status != 0:
            faulty = Batches(rows[:, : count + 1], consumed)
            _refuse(buffer, faulty, status, found, previous_last, end_offset)
        return Checked(batches, *facts)

    def _make_room(self, size: int) -> None:
        # Twice as many until they are enough; the bytes bound it.
        capacity = min(2 * self._rows.shape[1], size // HEADER_SIZE + 1)
        if capacity > self._rows.shape[1]:
            self._rows = np.empty((ROW_FIELDS, capacity), np.int64)


def _check_crcs(view: memoryview, batches: Batches) -> None:
    for index, (position, size) in enumerate(batches.rows[:2].T.tolist()):
        found = crc32c(view[position + ATTRIBUTES_AT : position + size])
        if found != batches.crc[index]:
            _refuse_crc(batches, index, found)


def _refuse(
    buffer: Buffer, batches: Batches, status: int, found: int, previous_last: int, end_offset: int
) -> NoReturn:
    """The last of `batches` is the one at fault."""
    if status == _BAD_HEADER:
        # Says what is wrong with it.
        scan(buffer)
        raise CorruptRecord(f"batch at position {batches.consumed}: its header is not sound")
    index = len(batches) - 1
    if status == _BAD_CRC:
        _refuse_crc(batches, index, found)
    before = previous_last if index == 0 else batches.last_offset[index - 1]
    raise BatchNotBelieved(
        batches.consumed,
        f"batch with offsets {batches.base_offset[index]} to {batches.last_offset[index]} "
        f"after {before}, the segment ends before {end_offset}",
    )


def _refuse_crc(batches: Batches, index: int, found: int) -> NoReturn:
    raise BatchNotBelieved(
        int(batches.position[index]), f"batch crc {found:#010x} != {batches.crc[index]:#010x}"
    )
