"""Records one at a time, in plain Python: for dumps, small jobs, and as the kernels' reference.

Grade P. Hot paths use `kernels.inspect_records` instead, which gives the same facts about a payload
a hundred times faster and must report the same faults. The layout of a record and the reader rules
are in README.md.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import HEADER_SIZE, BatchHeader, TimestampType, read_header
from ledgerstone.records.compression import STORED_LIMIT, decompress
from ledgerstone.records.records_facts import NearKind, RecordsFacts
from ledgerstone.records.varint import (
    VarintCutShort,
    VarintTooLong,
    decode_varint,
    decode_varlong,
)
from ledgerstone.types import INT64_MAX, Buffer

_LONGEST_NEAR: Final = 6

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class RecordFault(IntEnum):
    """Why a payload is not the records it should be. The first fault from the left is reported.

    A record's own length is judged against the payload, everything inside it against that length:
    `TRUNCATED` is about the record, `LENGTH_MISMATCH` about what is in it.
    """

    NONE = 0
    TRUNCATED = 1  # the record, or the varint of its length, passes the end of the payload
    VARINT_TOO_LONG = 2  # more than 5 (10) bytes, or more than 32 (64) bits
    NEGATIVE_LENGTH = 3  # record below 0; key, value or header value below -1
    LENGTH_MISMATCH = 4  # a field passes the end of its record, or bytes are left over in it
    BAD_HEADER_COUNT = 5  # negative, or more than the bytes left in the record
    NULL_HEADER_KEY = 6  # a header key with a negative length
    TRAILING_BYTES = 7  # bytes after the last declared record
    COUNT_MISMATCH = 8  # the payload ends where another declared record should start


class MalformedRecord(CorruptRecord):
    """One record of a payload breaks the layout."""

    def __init__(self, fault: RecordFault, index: int, position: int) -> None:
        super().__init__(f"record {index} at payload position {position}: {fault.name}")
        self.fault = fault
        self.index = index
        self.position = position


class RecordLayout(NamedTuple):
    """Where the parts of one record lie in its payload. A length of -1 means null."""

    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_length: int
    value_start: int
    value_length: int
    headers_start: int
    header_count: int
    end: int


class _Fault(Exception):
    """A fault on its way up to the loop that knows the record's index."""

    def __init__(self, fault: RecordFault, position: int) -> None:
        self.fault = fault
        self.position = position


def iter_records(
    batch: Buffer, position: int = 0, *, limit: int = STORED_LIMIT
) -> Iterator[Record]:
    """Every record of the batch at `position`. The caller checks the CRC."""
    header = read_header(batch, position)
    yield from iter_payload(header, records_payload(batch, position, header, limit=limit))


def iter_payload(header: BatchHeader, payload: Buffer) -> Iterator[Record]:
    """The same, for a decompressed payload."""
    for index, span in enumerate(iter_spans(payload, record_count=header.record_count)):
        yield Record(
            header.base_offset + span.offset_delta,
            timestamp_of(header, span),
            _bytes_at(payload, span.key_start, span.key_length),
            _bytes_at(payload, span.value_start, span.value_length),
            _read_headers(payload, span, index),
        )


def records_payload(
    batch: Buffer,
    position: int,
    header: BatchHeader,
    *,
    limit: int = STORED_LIMIT,
) -> Buffer:
    """The bytes after the header, decompressed; not copied if they were not compressed."""
    available = len(batch) - position
    if available < header.size:
        raise CorruptRecord(
            f"batch at offset {header.base_offset}: {available} bytes of {header.size}"
        )
    codec = header.codec
    stored = memoryview(batch)[position + HEADER_SIZE : position + header.size]
    if header.record_count == 0:
        # An emptied batch keeps no payload, so there is no stream to open.
        return stored
    return decompress(codec, stored, limit=limit)


def iter_spans(payload: Buffer, *, record_count: int) -> Iterator[RecordLayout]:
    """Exactly `record_count` records that fill the payload, or MalformedRecord."""
    if record_count < 0:
        raise MalformedRecord(RecordFault.COUNT_MISMATCH, 0, 0)
    position = 0
    for index in range(record_count):
        if position == len(payload):
            raise MalformedRecord(RecordFault.COUNT_MISMATCH, index, position)
        try:
            span, position = _read_span(payload, position)
        except _Fault as found:
            raise MalformedRecord(found.fault, index, found.position) from None
        yield span
    if position < len(payload):
        raise MalformedRecord(RecordFault.TRAILING_BYTES, record_count, position)


def plain_inspect_records(payload: Buffer, *, record_count: int) -> RecordsFacts:
    """The plain twin of `kernels.inspect_records`."""
    max_delta = min_delta = 0
    max_index = first_null_key = last_offset_delta = -1
    null_keys = tombstones = 0
    near = [0] * len(NearKind)
    first_near = (-1, -1)
    sequential = True
    try:
        for index, span in enumerate(iter_spans(payload, record_count=record_count)):
            if index == 0 or span.timestamp_delta > max_delta:
                max_delta, max_index = span.timestamp_delta, index
            if index == 0 or span.timestamp_delta < min_delta:
                min_delta = span.timestamp_delta
            if span.key_length < 0:
                first_null_key = index if null_keys == 0 else first_null_key
                null_keys += 1
            tombstones += span.value_length < 0
            kind = near_kind(payload, span)
            if kind is not None:
                near[kind] += 1
                first_near = (index, kind) if first_near[0] < 0 else first_near
            sequential = sequential and span.offset_delta == index
            last_offset_delta = span.offset_delta
    except MalformedRecord as found:
        return RecordsFacts(found.fault, found.index, found.position, 0, -1, 0, 0, -1, False, 0, -1)
    return RecordsFacts(
        status=RecordFault.NONE,
        fault_index=-1,
        fault_position=-1,
        max_timestamp_delta=max_delta,
        max_timestamp_index=max_index,
        min_timestamp_delta=min_delta,
        null_key_count=null_keys,
        first_null_key_index=first_null_key,
        sequential=sequential,
        tombstone_count=tombstones,
        last_offset_delta=last_offset_delta,
        empty_value_count=near[NearKind.EMPTY],
        null_text_count=near[NearKind.NULL_TEXT],
        framed_null_count=near[NearKind.FRAMED_NULL],
        first_near_index=first_near[0],
        first_near_kind=first_near[1],
    )


def near_kind(payload: Buffer, span: RecordLayout) -> NearKind | None:
    """The kind of failed delete that the record's value resembles."""
    if not 0 <= span.value_length <= _LONGEST_NEAR:
        return None
    value = bytes(memoryview(payload)[span.value_start : span.value_start + span.value_length])
    if not value:
        return NearKind.EMPTY
    if value == b"null":
        return NearKind.NULL_TEXT
    # A zero, a schema id of four bytes, then nothing or the null of a union.
    is_framed = len(value) >= 5 and value[0] == 0 and value[5:] in (b"", b"\0")
    return NearKind.FRAMED_NULL if is_framed else None


def _read_span(payload: Buffer, position: int) -> tuple[RecordLayout, int]:
    length, body = _varint(payload, position, len(payload), RecordFault.TRUNCATED)
    if length < 0:
        raise _Fault(RecordFault.NEGATIVE_LENGTH, position)
    end = body + length
    if end > len(payload):
        raise _Fault(RecordFault.TRUNCATED, position)
    if body == end:
        raise _Fault(RecordFault.LENGTH_MISMATCH, body)
    # The first byte of the body is the record's attributes, which are unused.
    timestamp_delta, position = _varlong(payload, body + 1, end)
    offset_delta, position = _varint(payload, position, end)
    key_length, key_start = _nullable_length(payload, position, end)
    value_length, value_start = _nullable_length(payload, key_start + max(key_length, 0), end)
    position = value_start + max(value_length, 0)
    header_count, headers_start = _varint(payload, position, end)
    if not 0 <= header_count <= end - headers_start:
        raise _Fault(RecordFault.BAD_HEADER_COUNT, position)
    position = headers_start
    for _ in range(header_count):
        key_at = position
        header_key_length, position = _varint(payload, position, end)
        if header_key_length < 0:
            raise _Fault(RecordFault.NULL_HEADER_KEY, key_at)
        position = _skip(position, header_key_length, end, key_at)
        header_value_length, position = _nullable_length(payload, position, end)
        position += max(header_value_length, 0)
    if position != end:
        raise _Fault(RecordFault.LENGTH_MISMATCH, position)
    span = RecordLayout(
        timestamp_delta,
        offset_delta,
        key_start,
        key_length,
        value_start,
        value_length,
        headers_start,
        header_count,
        end,
    )
    return span, end


def _varint(
    payload: Buffer,
    position: int,
    end: int,
    cut_short: RecordFault = RecordFault.LENGTH_MISMATCH,
) -> tuple[int, int]:
    try:
        return decode_varint(payload, position, end)
    except VarintCutShort:
        raise _Fault(cut_short, position) from None
    except VarintTooLong:
        raise _Fault(RecordFault.VARINT_TOO_LONG, position) from None


def _varlong(payload: Buffer, position: int, end: int) -> tuple[int, int]:
    try:
        return decode_varlong(payload, position, end)
    except VarintCutShort:
        raise _Fault(RecordFault.LENGTH_MISMATCH, position) from None
    except VarintTooLong:
        raise _Fault(RecordFault.VARINT_TOO_LONG, position) from None


def _nullable_length(payload: Buffer, position: int, end: int) -> tuple[int, int]:
    length, start = _varint(payload, position, end)
    if length < -1:
        raise _Fault(RecordFault.NEGATIVE_LENGTH, position)
    _skip(start, length, end, position)
    return length, start


def _skip(start: int, length: int, end: int, field_at: int) -> int:
    if length > end - start:
        raise _Fault(RecordFault.LENGTH_MISMATCH, field_at)
    return start + length


def _bytes_at(payload: Buffer, start: int, length: int) -> bytes | None:
    return None if length < 0 else bytes(payload[start : start + length])


def timestamp_of(header: BatchHeader, span: RecordLayout) -> int:
    """Of the record at `span`, as its readers have it."""
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp
    # The delta is negative after a first cleaning: base_timestamp is then the delete horizon.
    # Java's long wraps, and so does the compiled walk; such a record must not stop us.
    timestamp = header.base_timestamp + span.timestamp_delta
    return (timestamp + INT64_MAX + 1) % (1 << 64) - INT64_MAX - 1


def _read_headers(payload: Buffer, span: RecordLayout, index: int) -> Headers:
    # The span has been checked, so the bounds cannot fail a second time.
    headers: list[tuple[str, bytes | None]] = []
    position = span.headers_start
    for _ in range(span.header_count):
        length, position = decode_varint(payload, position, len(payload))
        try:
            key = str(payload[position : position + length], "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptRecord(f"record {index}: header key is not UTF-8: {error}") from None
        length, position = decode_varint(payload, position + length, len(payload))
        headers.append((key, _bytes_at(payload, position, length)))
        position += max(length, 0)
    return tuple(headers)
