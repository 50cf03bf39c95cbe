"""Kernel source: one record's fields, and the facts about a payload of records. Pure.

The reader rules are in records/README.md; the plain twin is `plain_inspect_records` in record.py.
"""

from ledgerstone.records.kernels.source.varints import (
    TRUNCATED,
    read_varint,
    read_varlong,
)
from ledgerstone.records.kernels.source.words import Pointer, i64

NEGATIVE_LENGTH = 3
LENGTH_MISMATCH = 4
BAD_HEADER_COUNT = 5
NULL_HEADER_KEY = 6
TRAILING_BYTES = 7
COUNT_MISMATCH = 8

# Values that look like a delete that failed; numbers of `NearKind`.
EMPTY_VALUE = 0
NULL_TEXT = 1
FRAMED_NULL = 2
LONGEST_NEAR = 6


def fault_inside(after: int) -> int:
    """A field that passes the end of its record belies the record's length."""
    return LENGTH_MISMATCH if after == -TRUNCATED else -after


def read_record_head(
    payload: Pointer, position: int, end: int
) -> tuple[int, int, int, int, int, int]:
    """(fault, position, record end, position of the attributes, timestamp delta, offset delta)."""
    if position >= end:
        return COUNT_MISMATCH, position, 0, 0, 0, 0
    length, after = read_varint(payload, position, end)
    if after < 0:
        return -after, position, 0, 0, 0, 0
    if length < 0:
        return NEGATIVE_LENGTH, position, 0, 0, 0, 0
    if length > end - after:
        return TRUNCATED, position, 0, 0, 0, 0
    record_end = after + length
    attributes_at = after
    if attributes_at >= record_end:
        return LENGTH_MISMATCH, attributes_at, 0, 0, 0, 0
    position = attributes_at + 1
    timestamp_delta, after = read_varlong(payload, position, record_end)
    if after < 0:
        return fault_inside(after), position, 0, 0, 0, 0
    position = after
    offset_delta, after = read_varint(payload, position, record_end)
    if after < 0:
        return fault_inside(after), position, 0, 0, 0, 0
    return 0, after, record_end, attributes_at, timestamp_delta, offset_delta


def read_bytes_length(payload: Pointer, position: int, end: int) -> tuple[int, int, int]:
    """(fault, length with -1 for null, position of the first byte or of the fault)."""
    length, after = read_varint(payload, position, end)
    if after < 0:
        return fault_inside(after), 0, position
    if length < -1:
        return NEGATIVE_LENGTH, 0, position
    if length > end - after:
        return LENGTH_MISMATCH, 0, position
    return 0, length, after


def skip_headers(payload: Pointer, position: int, end: int, count: int) -> tuple[int, int]:
    """(fault, position after `count` headers or of the fault)."""
    for _ in range(count):
        length, after = read_varint(payload, position, end)
        if after < 0:
            return fault_inside(after), position
        if length < 0:
            return NULL_HEADER_KEY, position
        if length > end - after:
            return LENGTH_MISMATCH, position
        position = after + length
        fault, length, after = read_bytes_length(payload, position, end)
        if fault != 0:
            return fault, after
        position = after + max(length, 0)
    return 0, position


def read_record_body(
    payload: Pointer, position: int, record_end: int
) -> tuple[int, int, int, int, int, int, int]:
    """(fault, key start, key length, value start, value length, headers start, header count).

    With a fault its position stands in the place of the key start.
    """
    fault, key_length, key_start = read_bytes_length(payload, position, record_end)
    if fault != 0:
        return fault, key_start, 0, 0, 0, 0, 0
    position = key_start + max(key_length, 0)
    fault, value_length, value_start = read_bytes_length(payload, position, record_end)
    if fault != 0:
        return fault, value_start, 0, 0, 0, 0, 0
    position = value_start + max(value_length, 0)
    header_count, headers_start = read_varint(payload, position, record_end)
    if headers_start < 0:
        return fault_inside(headers_start), position, 0, 0, 0, 0, 0
    if header_count < 0 or header_count > record_end - headers_start:
        return BAD_HEADER_COUNT, position, 0, 0, 0, 0, 0
    fault, position = skip_headers(payload, headers_start, record_end, header_count)
    if fault != 0:
        return fault, position, 0, 0, 0, 0, 0
    if position != record_end:
        return LENGTH_MISMATCH, position, 0, 0, 0, 0, 0
    return 0, key_start, key_length, value_start, value_length, headers_start, header_count


def inspect_records(payload: Pointer, end: int, record_count: int, facts: Pointer) -> int:
    """Writes what RecordsFacts has after `status` to the 15 `facts`; returns the fault."""
    position = 0
    max_timestamp_delta = 0
    max_timestamp_index = -1
    min_timestamp_delta = 0
    null_key_count = 0
    first_null_key_index = -1
    sequential = 1
    tombstone_count = 0
    empty_count = 0
    null_count = 0
    framed_count = 0
    first_near_index = -1
    first_near_kind = -1
    offset_delta = -1
    if record_count < 0:
        return write_fault(facts, COUNT_MISMATCH, 0, 0)
    for index in range(record_count):
        fault, position, record_end, _, timestamp_delta, offset_delta = read_record_head(
            payload, position, end
        )
        if fault != 0:
            return write_fault(facts, fault, index, position)
        fault, position, key_length, value_start, value_length, _, _ = read_record_body(
            payload, position, record_end
        )
        if fault != 0:
            return write_fault(facts, fault, index, position)
        position = record_end
        if index == 0 or timestamp_delta > max_timestamp_delta:
            max_timestamp_delta = timestamp_delta
            max_timestamp_index = index
        if index == 0 or timestamp_delta < min_timestamp_delta:
            min_timestamp_delta = timestamp_delta
        if key_length < 0:
            first_null_key_index = index if null_key_count == 0 else first_null_key_index
            null_key_count += 1
        if value_length <= LONGEST_NEAR:
            if value_length < 0:
                tombstone_count += 1
            else:
                kind = near_kind(payload, value_start, value_length)
                if kind >= 0:
                    if first_near_index < 0:
                        first_near_index = index
                        first_near_kind = kind
                    empty_count += 1 if kind == EMPTY_VALUE else 0
                    null_count += 1 if kind == NULL_TEXT else 0
                    framed_count += 1 if kind == FRAMED_NULL else 0
        if offset_delta != index:
            sequential = 0
    if position != end:
        return write_fault(facts, TRAILING_BYTES, record_count, position)
    facts[0] = -1
    facts[1] = -1
    facts[2] = max_timestamp_delta
    facts[3] = max_timestamp_index
    facts[4] = min_timestamp_delta
    facts[5] = null_key_count
    facts[6] = first_null_key_index
    facts[7] = sequential
    facts[8] = tombstone_count
    facts[9] = offset_delta
    facts[10] = empty_count
    facts[11] = null_count
    facts[12] = framed_count
    facts[13] = first_near_index
    facts[14] = first_near_kind
    return 0


def near_kind(payload: Pointer, start: int, length: int) -> int:
    """Which failed delete a value of at most LONGEST_NEAR bytes looks like; -1: none."""
    if length == 0:
        return EMPTY_VALUE
    if length == 4:
        # The bytes of `null`.
        if (
            i64(payload[start]) == 110
            and i64(payload[start + 1]) == 117
            and i64(payload[start + 2]) == 108
            and i64(payload[start + 3]) == 108
        ):
            return NULL_TEXT
        return -1
    if length >= 5 and i64(payload[start]) == 0 and (length == 5 or i64(payload[start + 5]) == 0):
        # A zero, the four bytes of a schema's id, and nothing or the null of a union behind them.
        return FRAMED_NULL
    return -1


def write_fault(facts: Pointer, fault: int, index: int, position: int) -> int:
    """Where it is wrong, and the facts of an empty payload: nothing half-counted gets out."""
    facts[0] = index
    facts[1] = position
    facts[2] = 0
    facts[3] = -1
    facts[4] = 0
    facts[5] = 0
    facts[6] = -1
    facts[7] = 0
    facts[8] = 0
    facts[9] = -1
    facts[10] = 0
    facts[11] = 0
    facts[12] = 0
    facts[13] = -1
    facts[14] = -1
    return fault
