"""Kernel source: records of some batches in columns, and the hashes of their keys. Pure.

Columns have `room` places; the glue has seen to it that no batch declares more records than that.
They stay in the processor's cache, and all slots are asked for before the first is needed.
"""

from ledgerstone.records.kernels.descriptors import CleaningCall
from ledgerstone.records.kernels.source.key_offsets import OFFSET_WORD, SLOT_WORDS, first_slot
from ledgerstone.records.kernels.source.record import (
    TRAILING_BYTES,
    read_record_body,
    read_record_head,
)
from ledgerstone.records.kernels.source.rewrite import DISCARD
from ledgerstone.records.kernels.source.siphash import hash_spans
from ledgerstone.records.kernels.source.walk import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    LOG_APPEND_TIME_FLAG,
    MAX_TIMESTAMP,
    PAYLOAD_END,
    PAYLOAD_START,
    RECORD_COUNT,
    RECORD_START,
    TOO_MANY_RECORDS,
)
from ledgerstone.records.kernels.source.words import Pointer, i64, prefetch

# Fields of a report about a fault.
FAULTY_BATCH = 1
FAULTY_RECORD = 2
FAULTY_POSITION = 3


def read_batches(call: CleaningCall, batch: int, min_offset: int) -> tuple[int, int, int]:
    """(fault, first batch that was not read, rows): as many batches as the columns have room for.

    DISCARDed batches are passed over. Spans are virtual positions."""
    rows, capacity, report = call.rows, call.capacity, call.report
    count = 0
    while batch < call.batch_end:
        declared = rows[RECORD_COUNT * capacity + batch]
        if declared > call.room - count:
            if count == 0:
                report[FAULTY_BATCH] = batch
                return TOO_MANY_RECORDS, batch, 0
            break
        rows[RECORD_START * capacity + batch] = count
        if (i64(call.actions[batch]) & DISCARD) != 0:
            batch += 1
            continue
        source = call.buffer
        shift = 0
        if rows[PAYLOAD_START * capacity + batch] >= call.split:
            source = call.arena
            shift = call.split
        fault, count = read_batch(call, source, shift, batch, min_offset, count)
        if fault != 0:
            report[FAULTY_BATCH] = batch
            return fault, batch, count
        batch += 1
    return 0, batch, count


def read_batch(
    call: CleaningCall, source: Pointer, shift: int, batch: int, min_offset: int, row: int
) -> tuple[int, int]:
    """(fault, rows in all); the caller has seen that all the declared records have a place."""
    rows, capacity, report = call.rows, call.capacity, call.report
    offset, timestamp, record_end = call.offset, call.timestamp, call.record_end
    key_start, key_length = call.key_start, call.key_length
    value_length, batch_index = call.value_length, call.batch_index
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
        fault, position, this_end, _, timestamp_delta, offset_delta = read_record_head(
            source, position, stop
        )
        if fault != 0:
            break
        fault, this_key, this_key_length, _, this_value_length, _, _ = read_record_body(
            source, position, this_end
        )
        if fault != 0:
            position = this_key
            break
        position = this_end
        this_offset = i64(base_offset + offset_delta)
        if this_offset < min_offset:
            continue
        offset[row] = this_offset
        # A sum past 64 bits wraps as Kafka's does, so a hostile timestamp blocks no cleaning.
        timestamp[row] = max_timestamp if append_time else i64(base_timestamp + timestamp_delta)
        record_end[row] = this_end + shift
        key_start[row] = this_key + shift
        key_length[row] = this_key_length
        value_length[row] = this_value_length
        batch_index[row] = batch
        row += 1
    if fault == 0 and position != stop:
        fault = TRAILING_BYTES
        index = record_count
    report[FAULTY_RECORD] = index
    report[FAULTY_POSITION] = position + shift
    return fault, row


def hash_rows(call: CleaningCall, count: int) -> None:
    """Hashes the keys of spans that were just read, and asks for their slots."""
    key_length, low, slots, table = call.key_length, call.low, call.slots, call.table
    hash_spans(
        call.buffer, call.split, call.arena, call.key_start, key_length, count, call.k0, call.k1,
        low, call.high, call.lanes,
    )  # fmt: skip
    for row in range(count):
        if i64(key_length[row]) >= 0:
            prefetch(table, first_slot(slots, low[row]) * SLOT_WORDS + OFFSET_WORD)
