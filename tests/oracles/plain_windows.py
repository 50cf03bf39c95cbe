"""Windows of batches walked and rewritten record by record. Oracles for tests.

They read with the plain readers of records/ and follow the tables of kernels/README.md the slow
way: every kept record is encoded anew.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerstone.records.batch import (
    DELETE_HORIZON_FLAG,
    KNOWN_ATTRIBUTES,
    BatchHeader,
    TimestampType,
    iter_headers,
    verify_crc,
)
from ledgerstone.records.builder import empty_batch, seal_batch
from ledgerstone.records.compression import compress
from ledgerstone.records.kernels import BatchAction
from ledgerstone.records.record import iter_spans, records_payload
from ledgerstone.records.varint import decode_varint, encode_varint, encode_varlong
from ledgerstone.types import Buffer


class PlainRecord(NamedTuple):
    """One record with its bytes; `tail` is everything after the offset delta, as stored."""

    batch_index: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: bytes
    header_count: int
    attributes: int
    offset_delta: int
    tail: bytes


def plain_walk(buffer: Buffer, *, min_offset: int | None = None) -> list[PlainRecord]:
    records = []
    for index, (position, header) in enumerate(iter_headers(buffer)):
        if min_offset is not None and header.last_offset < min_offset:
            continue
        verify_crc(buffer, position, header)
        for record in _records_of(buffer, position, header, index):
            if min_offset is None or record.offset >= min_offset:
                records.append(record)
    return records


def plain_rewrite(
    buffer: Buffer, keep: Sequence[int], actions: Sequence[int], delete_horizon_ms: int | None
) -> bytes:
    flags = iter(keep)
    out = bytearray()
    for index, (position, header) in enumerate(iter_headers(buffer)):
        records = _records_of(buffer, position, header, index)
        kept = [record for record in records if next(flags)]
        action = actions[index]
        if action & BatchAction.DISCARD:
            kept = []
        if not kept:
            out += empty_batch(header) if action & BatchAction.RETAIN_EMPTY else b""
            continue
        tombstones = any(record.value is None for record in kept)
        stamp = delete_horizon_ms is not None and not header.has_delete_horizon
        stamp = stamp and (tombstones or bool(action & BatchAction.STAMP))
        if len(kept) == len(records) and not stamp:
            out += memoryview(buffer)[position : position + header.size]
        else:
            out += _rebuilt(header, kept, delete_horizon_ms if stamp else None)
    return bytes(out)


def _rebuilt(
    header: BatchHeader, kept: Sequence[PlainRecord], delete_horizon_ms: int | None
) -> bytearray:
    attributes = header.attributes & KNOWN_ATTRIBUTES
    base_timestamp = kept[0].timestamp
    if header.has_delete_horizon:
        base_timestamp = header.base_timestamp
    elif delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
        attributes |= DELETE_HORIZON_FLAG
    payload = bytearray()
    for record in kept:
        body = bytearray([record.attributes])
        encode_varlong(body, _wrapped(record.timestamp - base_timestamp))
        encode_varint(body, record.offset_delta)
        body += record.tail
        encode_varint(payload, len(body))
        payload += body
    max_timestamp = max([-1, *(record.timestamp for record in kept)])
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = header.max_timestamp
    rebuilt = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=len(kept),
    )
    return seal_batch(rebuilt, compress(header.codec, payload))


def _records_of(
    buffer: Buffer, position: int, header: BatchHeader, batch_index: int
) -> list[PlainRecord]:
    payload = bytes(records_payload(buffer, position, header))
    records = []
    start = 0
    for span in iter_spans(payload, record_count=header.record_count):
        length, body = decode_varint(payload, start, len(payload))
        end = body + length
        _, after_delta = _after_offset_delta(payload, body, end)
        timestamp = _wrapped(header.base_timestamp + span.timestamp_delta)
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            timestamp = header.max_timestamp
        records.append(
            PlainRecord(
                batch_index,
                header.base_offset + span.offset_delta,
                timestamp,
                _slice(payload, span.key_start, span.key_length),
                _slice(payload, span.value_start, span.value_length),
                payload[span.headers_start : end],
                span.header_count,
                payload[body],
                span.offset_delta,
                payload[after_delta:end],
            )
        )
        start = end
    return records


def _after_offset_delta(payload: bytes, body: int, end: int) -> tuple[int, int]:
    position = body + 1
    while payload[position] >= 0x80:
        position += 1
    return decode_varint(payload, position + 1, end)


def _slice(payload: bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else payload[start : start + length]


def _wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63
