"""Kernel source: a window of batches to rows, and their records to columns. Pure.

Positions are virtual: below `split` they lie in the buffer, from `split` on in the arena that holds
decompressed payloads. A payload never lies in both.
"""

from ledgerstone.records.kernels.descriptors import WalkCall
from ledgerstone.records.kernels.source.record import (
    TRAILING_BYTES,
    read_record_body,
    read_record_head,
)
from ledgerstone.records.kernels.source.words import Pointer, i64

HEADER_SIZE = 61
LOG_OVERHEAD = 12
MAGIC_AT = 16

# Fields of a batch row; field f of batch b is rows[f * capacity + b].
POSITION = 0
SIZE = 1
BASE_OFFSET = 2
LAST_OFFSET = 3
LEADER_EPOCH = 4
ATTRIBUTES = 5
BASE_TIMESTAMP = 6
MAX_TIMESTAMP = 7
PRODUCER_ID = 8
PRODUCER_EPOCH = 9
BASE_SEQUENCE = 10
RECORD_COUNT = 11
CRC = 12
PAYLOAD_START = 13
PAYLOAD_END = 14
RECORD_START = 15
ROW_FIELDS = 16

BAD_BATCH = 1
TOO_MANY_RECORDS = 9

LOG_APPEND_TIME_FLAG = 0x08


def read_signed(buffer: Pointer, position: int, size: int) -> int:
    """A big-endian two's complement number; the caller has checked that it is all there."""
    value = i64(buffer[position])
    if value >= 0x80:
        value -= 0x100
    for index in range(1, size):
        value = (value << 8) | i64(buffer[position + index])
    return value


def scan_batches(
    buffer: Pointer, start: int, end: int, rows: Pointer, capacity: int, report: Pointer
) -> int:
    """Rows for up to `capacity` complete batches; counts the others too.

    report: batches, records they declare, position after the last complete batch. Stops with
    BAD_BATCH at a header that `batch.read_header` would refuse; report[2] is then its position.
    """
    position = start
    count = 0
    records = 0
    status = 0
    while end - position > MAGIC_AT:
        size = read_signed(buffer, position + 8, 4) + LOG_OVERHEAD
        if size < HEADER_SIZE or i64(buffer[position + MAGIC_AT]) != 2:
            status = BAD_BATCH
            break
        if size > end - position:
            break
        record_count = read_signed(buffer, position + 57, 4)
        if record_count < 0:
            status = BAD_BATCH
            break
        if count < capacity:
            write_row(buffer, position, size, rows, capacity, count)
        records += record_count
        count += 1
        position += size
    report[0] = count
    report[1] = records
    report[2] = position
    return status


def write_row(
    buffer: Pointer, position: int, size: int, rows: Pointer, capacity: int, batch: int
) -> None:
    base_offset = read_signed(buffer, position, 8)
    rows[POSITION * capacity + batch] = position
    rows[SIZE * capacity + batch] = size
    rows[BASE_OFFSET * capacity + batch] = base_offset
    rows[LAST_OFFSET * capacity + batch] = i64(base_offset + read_signed(buffer, position + 23, 4))
    rows[LEADER_EPOCH * capacity + batch] = read_signed(buffer, position + 12, 4)
    rows[ATTRIBUTES * capacity + batch] = read_signed(buffer, position + 21, 2)
    rows[BASE_TIMESTAMP * capacity + batch] = read_signed(buffer, position + 27, 8)
    rows[MAX_TIMESTAMP * capacity + batch] = read_signed(buffer, position + 35, 8)
    rows[PRODUCER_ID * capacity + batch] = read_signed(buffer, position + 43, 8)
    rows[PRODUCER_EPOCH * capacity + batch] = read_signed(buffer, position + 51, 2)
    rows[BASE_SEQUENCE * capacity + batch] = read_signed(buffer, position + 53, 4)
    rows[RECORD_COUNT * capacity + batch] = read_signed(buffer, position + 57, 4)
    rows[CRC * capacity + batch] = read_signed(buffer, position + 17, 4) & 0xFFFFFFFF
    rows[PAYLOAD_START * capacity + batch] = position + HEADER_SIZE
    rows[PAYLOAD_END * capacity + batch] = position + size
    rows[RECORD_START * capacity + batch] = 0


def walk_batches(call: WalkCall) -> int:
    """Columns for every record at or past `min_offset`; payload spans were checked by the glue.

    A batch whose PAYLOAD_END is below its PAYLOAD_START is passed over."""
    rows, capacity, report = call.rows, call.capacity, call.report
    written = 0
    for batch in range(call.batch_end):
        rows[RECORD_START * capacity + batch] = written
        start = rows[PAYLOAD_START * capacity + batch]
        end = rows[PAYLOAD_END * capacity + batch]
        if end < start:
            continue
        if start >= call.split:
            fault, written = walk_batch(call, call.arena, call.split, batch, written)
        else:
            fault, written = walk_batch(call, call.buffer, 0, batch, written)
        report[0] = written
        if fault != 0:
            report[1] = batch
            return fault
    report[0] = written
    return 0


def walk_batch(
    call: WalkCall, source: Pointer, shift: int, batch: int, written: int
) -> tuple[int, int]:
    """(fault, records written in all); virtual positions are those in `source` plus `shift`."""
    rows, capacity, min_offset = call.rows, call.capacity, call.min_offset
    wide, narrow, room, report = call.wide, call.narrow, call.room, call.report
    base_offset = rows[BASE_OFFSET * capacity + batch]
    base_timestamp = rows[BASE_TIMESTAMP * capacity + batch]
    max_timestamp = rows[MAX_TIMESTAMP * capacity + batch]
    append_time = (rows[ATTRIBUTES * capacity + batch] & LOG_APPEND_TIME_FLAG) != 0
    position = rows[PAYLOAD_START * capacity + batch] - shift
    stop = rows[PAYLOAD_END * capacity + batch] - shift
    record_count = rows[RECORD_COUNT * capacity + batch]
    fault = 0
    index = 0
    for index in range(record_count):  # noqa: B007 - after the loop it names the record
        fault, position, record_end, _, timestamp_delta, offset_delta = read_record_head(
            source, position, stop
        )
        if fault != 0:
            break
        fault, key_start, key_length, value_start, value_length, headers_start, header_count = (
            read_record_body(source, position, record_end)
        )
        if fault != 0:
            position = key_start
            break
        position = record_end
        offset = i64(base_offset + offset_delta)
        if offset < min_offset:
            continue
        if written >= room:
            fault = TOO_MANY_RECORDS
            break
        wide[written] = offset
        # A sum past 64 bits wraps as Kafka's does, so a hostile timestamp blocks no cleaning.
        wide[room + written] = (
            max_timestamp if append_time else i64(base_timestamp + timestamp_delta)
        )
        wide[2 * room + written] = key_start + shift
        wide[3 * room + written] = value_start + shift
        wide[4 * room + written] = headers_start + shift
        narrow[written] = key_length
        narrow[room + written] = value_length
        narrow[2 * room + written] = record_end - headers_start
        narrow[3 * room + written] = header_count
        narrow[4 * room + written] = batch
        written += 1
    if fault == 0 and position != stop:
        fault = TRAILING_BYTES
        index = record_count
    report[2] = index
    report[3] = position + shift
    return fault, written
