"""Builds batches from records: for clients, for the metadata log, for rebuilds, and for tests.

Grade P. Uncompressed output is the same byte for byte as Kafka's (golden vectors in the tests);
compressed output decodes to the same records. What a rebuild must keep is in README.md.
"""

from collections.abc import Iterable, Sequence

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    KNOWN_ATTRIBUTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    MIN_BATCH_LENGTH,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Codec,
    TimestampType,
    read_header,
    seal,
)
from ledgerstone.records.compression import STORED_LIMIT, compress
from ledgerstone.records.record import iter_spans, records_payload
from ledgerstone.records.varint import (
    decode_varint,
    decode_varlong,
    encode_varint,
    encode_varlong,
    size_of_varint,
)
from ledgerstone.types import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Buffer,
)

RecordHeaders = Sequence[tuple[str, bytes | None]]
# timestamp, key, value, headers; a timestamp of None means the record has none.
RecordParts = tuple[int | None, bytes | None, bytes | None, RecordHeaders]


def build_batch(
    records: Iterable[RecordParts],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
    offsets: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
    max_timestamp: int | None = None,
) -> bytearray:
    """One sealed batch.

    `offsets` are absolute and default to base_offset, base_offset + 1, …; a batch that compaction
    has thinned out passes its remaining offsets and its original `last_offset_delta`.
    """
    parts = list(records)
    if offsets is None:
        offsets = range(base_offset, base_offset + len(parts))
    if not parts:
        raise InvariantViolation(f"batch at offset {base_offset} has no records; use empty_batch")
    if len(offsets) != len(parts):
        raise InvariantViolation(f"{len(offsets)} offsets for {len(parts)} records")
    timestamps = [NO_TIMESTAMP if part[0] is None else part[0] for part in parts]
    base_timestamp = timestamps[0] if delete_horizon_ms is None else delete_horizon_ms

    payload = bytearray()
    for part, offset, timestamp in zip(parts, offsets, timestamps, strict=True):
        _, key, value, headers = part
        append_record(
            payload, offset - base_offset, timestamp - base_timestamp, key, value, headers
        )

    attributes = int(codec)
    attributes |= LOG_APPEND_TIME_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    attributes |= TRANSACTIONAL_FLAG if transactional else 0
    attributes |= CONTROL_FLAG if control else 0
    attributes |= 0 if delete_horizon_ms is None else DELETE_HORIZON_FLAG
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=(
            offsets[-1] - base_offset if last_offset_delta is None else last_offset_delta
        ),
        base_timestamp=base_timestamp,
        max_timestamp=max(timestamps) if max_timestamp is None else max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(parts),
    )
    return seal_batch(header, compress(codec, payload, level))


def seal_batch(header: BatchHeader, payload: Buffer) -> bytearray:
    """Header and payload as one batch; length and CRC are computed here."""
    batch = bytearray(HEADER_SIZE + len(payload))
    batch[HEADER_SIZE:] = payload
    seal(batch, header)
    return batch


def empty_batch(header: BatchHeader) -> bytes:
    """A batch without records: only its offsets and its producer's sequence numbers remain.

    The horizon is dropped, because nothing is left to expire.
    """
    kept_flags = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
    emptied = header._replace(
        batch_length=MIN_BATCH_LENGTH,
        attributes=header.attributes & kept_flags,
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    return bytes(seal_batch(emptied, b""))


def rebuild_with_codec(
    batch: Buffer,
    codec: Codec,
    level: int | None = None,
    *,
    limit: int = STORED_LIMIT,
) -> bytearray:
    """The same records under another codec. Records are moved as bytes, never parsed."""
    header = read_header(batch)
    payload = records_payload(batch, 0, header, limit=limit)
    if header.record_count == 0:
        # Readers open no stream for an empty batch, so it must not claim to have one.
        codec = Codec.NONE
    attributes = header.attributes & KNOWN_ATTRIBUTES & ~CODEC_MASK | codec
    return seal_batch(header._replace(attributes=attributes), compress(codec, payload, level))


def renumber_records(payload: Buffer, *, record_count: int) -> bytearray:
    """The same records with offset deltas 0, 1, 2, …; everything else is copied as bytes."""
    out = bytearray()
    start = 0
    for index, span in enumerate(iter_spans(payload, record_count=record_count)):
        _, body = decode_varint(payload, start, span.end)
        _, offset_delta_at = decode_varlong(payload, body + 1, span.end)
        _, rest = decode_varint(payload, offset_delta_at, span.end)
        encode_varint(out, offset_delta_at - body + size_of_varint(index) + span.end - rest)
        out += payload[body:offset_delta_at]
        encode_varint(out, index)
        out += payload[rest : span.end]
        start = span.end
    return out


def append_record(
    payload: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: RecordHeaders,
) -> None:
    body = bytearray(1)
    encode_varlong(body, timestamp_delta)
    encode_varint(body, offset_delta)
    _append_nullable(body, key)
    _append_nullable(body, value)
    encode_varint(body, len(headers))
    for header_key, header_value in headers:
        _append_nullable(body, header_key.encode())
        _append_nullable(body, header_value)
    encode_varint(payload, len(body))
    payload += body


def _append_nullable(body: bytearray, value: bytes | None) -> None:
    if value is None:
        encode_varint(body, -1)
        return
    encode_varint(body, len(value))
    body += value
