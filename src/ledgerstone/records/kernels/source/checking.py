"""Kernel source: whether scanned batches may be believed, by CRC and by offsets. Pure."""

from ledgerstone.records.kernels.source.crc import crc32c
from ledgerstone.records.kernels.source.walk import (
    ATTRIBUTES,
    BASE_OFFSET,
    CRC,
    LAST_OFFSET,
    POSITION,
    RECORD_COUNT,
    SIZE,
)
from ledgerstone.records.kernels.source.words import Pointer, has_crc_instruction, i64

BAD_CRC = 1
BAD_OFFSETS = 2

ATTRIBUTES_AT = 21

# Fields of the report.
FAULTY_BATCH = 0
FOUND_CRC = 1
ALL_ATTRIBUTES = 2
RECORDS = 3
MOST_RECORDS = 4
CRCS_CHECKED = 5
REPORT_FIELDS = 6


def check_batches(
    buffer: Pointer,
    rows: Pointer,
    capacity: int,
    batch_count: int,
    previous_last: int,
    end_offset: int,
    report: Pointer,
) -> int:
    """CRCs hold, offsets rise from `previous_last` and stay below `end_offset`.

    report: the batch of a fault and the CRC found there, the attributes of all batches together,
    their records, the most in one; whether CRCs were looked at, which only the instruction does.
    """
    attributes = 0
    records = 0
    most = 0
    checks_crc = has_crc_instruction()
    report[CRCS_CHECKED] = checks_crc
    for batch in range(batch_count):
        position = rows[POSITION * capacity + batch]
        report[FAULTY_BATCH] = batch
        if checks_crc != 0:
            end = position + rows[SIZE * capacity + batch]
            found = i64(crc32c(buffer, position + ATTRIBUTES_AT, end))
            if found != rows[CRC * capacity + batch]:
                report[FOUND_CRC] = found
                return BAD_CRC
        base_offset = rows[BASE_OFFSET * capacity + batch]
        last_offset = rows[LAST_OFFSET * capacity + batch]
        if base_offset <= previous_last or last_offset < base_offset or last_offset >= end_offset:
            return BAD_OFFSETS
        previous_last = last_offset
        attributes |= rows[ATTRIBUTES * capacity + batch]
        records += rows[RECORD_COUNT * capacity + batch]
        most = max(most, rows[RECORD_COUNT * capacity + batch])
    report[ALL_ATTRIBUTES] = attributes
    report[RECORDS] = records
    report[MOST_RECORDS] = most
    return 0
