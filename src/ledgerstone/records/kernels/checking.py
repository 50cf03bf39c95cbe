"""Whether scanned batches may be believed: CRCs, and offsets that only rise. Pure.

The kernel computes CRCs where the processor has an instruction for it, the package crc32c
elsewhere.
"""

import ctypes
from typing import Final, NamedTuple

from crc32c import crc32c

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import ATTRIBUTES_AT
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.memory import borrow
from ledgerstone.records.kernels.windows import Batches
from ledgerstone.types import Buffer

_REPORT_FIELDS: Final = 6
_BAD_CRC: Final = 1


class Checked(NamedTuple):
    """What the headers of sound batches say together."""

    attributes: int  # every bit that any of them has
    records: int
    most_records: int  # in one batch


class BatchNotBelieved(CorruptRecord):
    """`position` is that of the batch in the buffer."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


def check_batches(
    buffer: Buffer, batches: Batches, *, previous_last: int, end_offset: int
) -> Checked:
    """Offsets must rise from behind `previous_last` and stay below `end_offset`."""
    address, pin = borrow(buffer)
    rows, rows_pin = borrow(batches.rows.data)
    report = (ctypes.c_int64 * _REPORT_FIELDS)()
    count = len(batches)
    status = kernel("check_batches")(address, rows, count, count, previous_last, end_offset, report)
    del pin, rows_pin
    index, found, attributes, records, most_records, crcs_checked = report
    if not crcs_checked:
        _check_crcs(memoryview(buffer).cast("B"), batches)
    if status == _BAD_CRC:
        _refuse_crc(batches, index, found)
    if status != 0:
        before = previous_last if index == 0 else batches.last_offset[index - 1]
        raise BatchNotBelieved(
            int(batches.position[index]),
            f"batch with offsets {batches.base_offset[index]} to {batches.last_offset[index]} "
            f"after {before}, the segment ends before {end_offset}",
        )
    return Checked(attributes, records, most_records)


def _check_crcs(view: memoryview, batches: Batches) -> None:
    for index, (position, size) in enumerate(batches.rows[:2].T.tolist()):
        found = crc32c(view[position + ATTRIBUTES_AT : position + size])
        if found != batches.crc[index]:
            _refuse_crc(batches, index, found)


def _refuse_crc(batches: Batches, index: int, found: int) -> None:
    raise BatchNotBelieved(
        int(batches.position[index]), f"batch crc {found:#010x} != {batches.crc[index]:#010x}"
    )
