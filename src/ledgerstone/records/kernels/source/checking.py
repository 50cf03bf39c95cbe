"""Kernel source: which batches a window begins with, and whether they may be believed. Pure.

Header, CRC and offsets of a batch are looked at in one go, while its bytes are near.
"""

from ledgerstone.records.kernels.source.crc import crc32c
from ledgerstone.records.kernels.source.walk import (
    ATTRIBUTES,
    BASE_OFFSET,
    CRC,
    HEADER_SIZE,
    LAST_OFFSET,
    LOG_OVERHEAD,
    MAGIC_AT,
    RECORD_COUNT,
    read_signed,
    write_row,
)
from ledgerstone.records.kernels.source.words import Pointer, has_crc_instruction, i64

BAD_CRC = 1
BAD_OFFSETS = 2
BAD_HEADER = 3

ATTRIBUTES_AT = 21

# Fields of the report.
BATCHES = 0  # with a fault: those before the faulty one, which has a row if its header is sound
CONSUMED = 1
ROWS_ARE_FULL = 2
FOUND_CRC = 3
ALL_ATTRIBUTES = 4
RECORDS = 5
MOST_RECORDS = 6
CRCS_CHECKED = 7
REPORT_FIELDS = 8


def check_batches(
    buffer: Pointer,
    end: int,
    rows: Pointer,
    capacity: int,
    previous_last: int,
    end_offset: int,
    report: Pointer,
) -> int:
    """Rows for up to `capacity` complete batches whose headers are sound, whose CRCs hold, and
    whose offsets rise from `previous_last` and stay below `end_offset`.

    report: how many, the position behind them, whether there was a row for all of them, the CRC
    that was found where one is wrong, the attributes of all batches together, their records, the
    most in one; whether CRCs were looked at, which only the instruction does.
    """
    attributes = 0
    records = 0
    most = 0
    position = 0
    count = 0
    status = 0
    checks_crc = has_crc_instruction()
    report[CRCS_CHECKED] = checks_crc
    report[ROWS_ARE_FULL] = 0
    while end - position > MAGIC_AT:
        size = read_signed(buffer, position + 8, 4) + LOG_OVERHEAD
        if size < HEADER_SIZE or i64(buffer[position + MAGIC_AT]) != 2:
            status = BAD_HEADER
            break
        if size > end - position:
            break
        if count == capacity:
            report[ROWS_ARE_FULL] = 1
            break
        write_row(buffer, position, size, rows, capacity, count)
        record_count = rows[RECORD_COUNT * capacity + count]
        if record_count < 0:
            status = BAD_HEADER
            break
        if checks_crc != 0:
            found = i64(crc32c(buffer, position + ATTRIBUTES_AT, position + size))
            if found != rows[CRC * capacity + count]:
                report[FOUND_CRC] = found
                status = BAD_CRC
                break
        base_offset = rows[BASE_OFFSET * capacity + count]
        last_offset = rows[LAST_OFFSET * capacity + count]
        if base_offset <= previous_last or last_offset < base_offset or last_offset >= end_offset:
            status = BAD_OFFSETS
            break
        previous_last = last_offset
        attributes |= rows[ATTRIBUTES * capacity + count]
        records += record_count
        most = max(most, record_count)
        count += 1
        position += size
    report[BATCHES] = count
    report[CONSUMED] = position
    report[ALL_ATTRIBUTES] = attributes
    report[RECORDS] = records
    report[MOST_RECORDS] = most
    return status
