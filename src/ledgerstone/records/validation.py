"""What a leader checks and changes before it appends a batch, and what a follower checks.

Grade P. The rules and their order are in README.md, "What a leader checks". A valid batch is
stamped in place; it is rebuilt only if its codec or its offset deltas must change. A refused batch
is not modified.
"""

from enum import Enum
from itertools import islice
from typing import Final, NamedTuple, NoReturn, Protocol

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import (
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    KeylessRecord,
    MessageTooLarge,
    RecordError,
    UnsupportedForMessageFormat,
)
from ledgerstone.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    KNOWN_ATTRIBUTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    BatchHeader,
    Codec,
    TimestampType,
    iter_headers,
    read_header,
    stamp_max_timestamp,
    verify_crc,
)
from ledgerstone.records.builder import renumber_records, seal_batch
from ledgerstone.records.compression import Codecs, decompression_limit
from ledgerstone.records.kernels import inspect_records
from ledgerstone.records.own_batch import OwnBatch
from ledgerstone.records.record import (
    RecordFault,
    iter_spans,
)
from ledgerstone.records.records_facts import NearTombstones, RecordsFacts
from ledgerstone.types import INT64_MAX, NO_PRODUCER_ID, NO_TIMESTAMP, Buffer, WritableBuffer

# Naming every bad record, or renumbering records, takes one step per record. A request must not
# cause more than a few tens of milliseconds of that.
MAX_PLAIN_RECORDS: Final = 10_000
MAX_RECORD_ERRORS: Final = 1000

# Bound once: an enum lookup costs as much as one of the checks below.
_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME
_CREATE_TIME: Final = TimestampType.CREATE_TIME
_UNCOMPRESSED: Final = Codec.NONE


class Origin(Enum):
    """Who wrote the batch. Replicated batches go through `check_replicated` instead."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRules:
    """The topic's configuration for batches."""

    compacted: bool
    max_message_bytes: int
    timestamp_type: TimestampType
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    codec: Codec | None  # None keeps the producer's
    level: int | None


class ValidatedBatch(NamedTuple):
    """A batch that needs only its base offset and leader epoch."""

    data: WritableBuffer  # the buffer handed in, unless the batch was rebuilt
    header: BatchHeader
    record_count: int
    max_timestamp: int
    offset_delta_of_max_timestamp: int  # of the first record that carries it
    tombstone_count: int
    recompressed: bool
    near: NearTombstones | None = None  # on a compacted topic


class InspectRecords(Protocol):
    def __call__(self, payload: Buffer, *, record_count: int) -> RecordsFacts: ...


def validate_produced(
    records: WritableBuffer,
    rules: AppendRules,
    *,
    now_ms: int,
    origin: Origin = Origin.CLIENT,
    inspect: InspectRecords = inspect_records,
    codecs: Codecs | None = None,
) -> ValidatedBatch:
    """`records` must be exactly one batch; it may be part of a receive buffer. The caller keeps
    `codecs` for further batches."""
    header = _read_only_batch(records)
    _check_header(records, header, rules, origin)
    codecs = codecs or Codecs()
    payload: Buffer = memoryview(records)[HEADER_SIZE:]
    if header.attributes & CODEC_MASK:
        limit = decompression_limit(rules.max_message_bytes)
        payload = codecs.peek(header.codec, payload, limit=limit)
    facts = inspect(payload, record_count=header.record_count)
    if facts.status:
        _refuse_fault(facts)
    return _obeying(rules, records, header, payload, facts, now_ms, codecs)


def validate_own(
    own: OwnBatch, rules: AppendRules, *, now_ms: int, codecs: Codecs
) -> ValidatedBatch:
    """Nothing can be wrong with it, but the topic's rules may still refuse it, or want another."""
    data, header, facts, _ = own
    if _is_usual(own, rules, now_ms):
        index, tombstones = facts.max_timestamp_index, facts.tombstone_count
        count, time = header.record_count, header.max_timestamp
        return ValidatedBatch(data, header, count, time, index, tombstones, False)
    _check_size(data, rules)
    if rules.timestamp_type is _LOG_APPEND_TIME:
        data = bytearray(data)  # It is stamped, and others may be given the same batch.
    payload = memoryview(data)[HEADER_SIZE:]
    return _obeying(rules, data, header, payload, facts, now_ms, codecs)


def _is_usual(own: OwnBatch, rules: AppendRules, now_ms: int) -> bool:
    """Whether every rule agrees with it as it is. Of nearly all of our own this is true, and every
    step of a transaction has one."""
    data, header, facts, _ = own
    return (
        len(data) <= rules.max_message_bytes
        and rules.timestamp_type is _CREATE_TIME
        and (rules.codec is None or rules.codec is _UNCOMPRESSED)
        and not facts.null_key_count
        # All records are of one time, and it is not far from now.
        and facts.max_timestamp_delta == facts.min_timestamp_delta == 0
        and -rules.timestamp_before_max_ms <= header.max_timestamp - now_ms
        and header.max_timestamp - now_ms <= rules.timestamp_after_max_ms
    )


def _obeying(
    rules: AppendRules,
    records: WritableBuffer,
    header: BatchHeader,
    payload: Buffer,
    facts: RecordsFacts,
    now_ms: int,
    codecs: Codecs,
) -> ValidatedBatch:
    if rules.compacted and facts.null_key_count and not header.is_control:
        _refuse_null_keys(payload, header, facts)
    max_timestamp = _max_timestamp(header, payload, facts, rules, now_ms)

    data = records
    recompressed = not facts.sequential or (
        rules.codec is not None and _target_codec(header, rules) is not header.codec
    )
    if recompressed:
        data = _rebuild(header, payload, facts, rules, codecs)
    uses_append_time = rules.timestamp_type is _LOG_APPEND_TIME
    if (
        recompressed
        or header.max_timestamp != max_timestamp
        or (header.attributes & LOG_APPEND_TIME_FLAG != 0) is not uses_append_time
    ):
        stamp_max_timestamp(
            data, 0, timestamp_type=rules.timestamp_type, max_timestamp=max_timestamp
        )
        header = read_header(data)
    return ValidatedBatch(
        data,
        header,
        header.record_count,
        max_timestamp,
        0 if uses_append_time else facts.max_timestamp_index,
        0 if header.attributes & CONTROL_FLAG else facts.tombstone_count,
        recompressed,
        facts.near if rules.compacted and facts.first_near_index >= 0 else None,
    )


def check_replicated(buffer: Buffer) -> list[tuple[int, BatchHeader]]:
    """Position and header of each complete batch from a leader. Bytes are not changed."""
    batches: list[tuple[int, BatchHeader]] = []
    for position, header in iter_headers(buffer):
        verify_crc(buffer, position, header)
        if header.record_count < 0 or header.last_offset_delta < 0:
            raise CorruptRecord(
                f"batch at offset {header.base_offset}: record count {header.record_count}, "
                f"last offset delta {header.last_offset_delta}"
            )
        if header.base_offset < 0 or header.last_offset > INT64_MAX:
            raise CorruptRecord(
                f"batch at position {position}: offsets {header.base_offset} to "
                f"{header.last_offset} are not int64 offsets"
            )
        batches.append((position, header))
    return batches


def _read_only_batch(records: WritableBuffer) -> BatchHeader:
    if not records:
        raise InvalidRecord("no record batch where exactly one is expected")
    if len(records) < HEADER_SIZE:
        raise InvalidRecord(f"{len(records)} bytes are not a record batch")
    try:
        header = read_header(records)
    except UnsupportedForMessageFormat as error:
        raise InvalidRecord(str(error)) from None
    size, available = LOG_OVERHEAD + header.batch_length, len(records)
    if size == available:
        return header
    if size > available:
        # As in Kafka, not CORRUPT_MESSAGE, which clients take for damage in transit and retry.
        raise InvalidRecord(f"record batch: {available} bytes of {size}")
    raise InvalidRecord(
        f"exactly one record batch is expected; {available - size} bytes follow the first, "
        f"which has {size}"
    )


def _check_header(
    records: WritableBuffer, header: BatchHeader, rules: AppendRules, origin: Origin
) -> None:
    if header.base_offset != 0:
        raise InvalidRecord(f"base offset {header.base_offset}; a producer must send 0")
    _check_size(records, rules)
    verify_crc(records, 0, header)
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(
            f"record count {header.record_count} with last offset delta {header.last_offset_delta}"
        )
    # Most batches are neither flagged nor from an idempotent producer: nothing more to check.
    if header.attributes & ~CODEC_MASK or header.producer_id > NO_PRODUCER_ID:
        _check_flags(header, rules, origin)


def _check_size(records: WritableBuffer, rules: AppendRules) -> None:
    if len(records) > rules.max_message_bytes:
        raise MessageTooLarge(
            f"record batch of {len(records)} bytes, max.message.bytes is {rules.max_message_bytes}"
        )


def _check_flags(header: BatchHeader, rules: AppendRules, origin: Origin) -> None:
    if header.has_delete_horizon:
        # Differs from Kafka: it lets a producer choose the horizon of its own tombstones.
        raise InvalidRecord("only the cleaner sets a delete horizon (attribute bit 6)")
    _check_producer(header, origin)
    if header.timestamp_type is _LOG_APPEND_TIME and (
        rules.timestamp_type is _LOG_APPEND_TIME or header.max_timestamp == NO_TIMESTAMP
    ):
        raise InvalidTimestamp("a producer must not set the timestamp type to LogAppendTime")


def _check_producer(header: BatchHeader, origin: Origin) -> None:
    if header.is_transactional and not header.has_producer_id:
        raise InvalidRecord(f"transactional batch with producer id {header.producer_id}")
    if origin is Origin.COORDINATOR:
        return
    if header.is_control:
        raise InvalidRecord("a client must not write control batches")
    if header.has_producer_id and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecord(
            f"producer id {header.producer_id} with epoch {header.producer_epoch} and base "
            f"sequence {header.base_sequence}"
        )


def _refuse_fault(facts: RecordsFacts) -> NoReturn:
    message = (
        f"record {facts.fault_index} at payload position {facts.fault_position}: "
        f"{RecordFault(facts.status).name}"
    )
    raise InvalidRecord(message, [RecordError(facts.fault_index, message)])


def _refuse_null_keys(payload: Buffer, header: BatchHeader, facts: RecordsFacts) -> NoReturn:
    indexes = [facts.first_null_key_index]
    for index, span in enumerate(iter_spans(payload, record_count=header.record_count)):
        if index >= MAX_PLAIN_RECORDS or len(indexes) >= MAX_RECORD_ERRORS:
            break
        if span.key_length < 0 and index > facts.first_null_key_index:
            indexes.append(index)
    raise KeylessRecord(
        f"{facts.null_key_count} of {header.record_count} records have no key; a compacted topic "
        "needs one in every record",
        [RecordError(index, "a compacted topic needs a key") for index in indexes],
    )


def _max_timestamp(
    header: BatchHeader, payload: Buffer, facts: RecordsFacts, rules: AppendRules, now_ms: int
) -> int:
    if rules.timestamp_type is _LOG_APPEND_TIME:
        return now_ms
    latest = header.base_timestamp + facts.max_timestamp_delta
    earliest = header.base_timestamp + facts.min_timestamp_delta
    if not -INT64_MAX <= earliest <= latest <= INT64_MAX:
        raise InvalidTimestamp(f"timestamps {earliest} to {latest} are not int64")
    if earliest == latest == NO_TIMESTAMP:
        return NO_TIMESTAMP
    # Differs from Kafka: if only some records lack a timestamp, -1 is checked like any other.
    if latest - now_ms > rules.timestamp_after_max_ms:
        reason = f"timestamp {latest} is more than {rules.timestamp_after_max_ms} ms after {now_ms}"
        index = facts.max_timestamp_index
        raise InvalidTimestamp(f"record {index}: {reason}", [RecordError(index, reason)])
    if now_ms - earliest > rules.timestamp_before_max_ms:
        limit = rules.timestamp_before_max_ms
        reason = f"earliest timestamp {earliest} is more than {limit} ms before {now_ms}"
        found = _index_of_delta(header, payload, facts.min_timestamp_delta)
        if found is None:
            raise InvalidTimestamp(reason)
        raise InvalidTimestamp(f"record {found}: {reason}", [RecordError(found, reason)])
    return latest


def _index_of_delta(header: BatchHeader, payload: Buffer, timestamp_delta: int) -> int | None:
    """None where it lies behind more records than may be looked at."""
    spans = iter_spans(payload, record_count=header.record_count)
    return next(
        (
            index
            for index, span in enumerate(islice(spans, MAX_PLAIN_RECORDS))
            if span.timestamp_delta == timestamp_delta
        ),
        None,
    )


def _target_codec(header: BatchHeader, rules: AppendRules) -> Codec:
    if rules.codec is None or (header.is_control and not header.is_compressed):
        return header.codec
    return rules.codec


def _rebuild(
    header: BatchHeader, payload: Buffer, facts: RecordsFacts, rules: AppendRules, codecs: Codecs
) -> bytearray:
    codec = _target_codec(header, rules)
    if not facts.sequential:
        if header.record_count > MAX_PLAIN_RECORDS:
            raise InvalidRecord(
                f"offset deltas of {header.record_count} records are not 0, 1, 2, …; only batches "
                f"of up to {MAX_PLAIN_RECORDS} records are renumbered"
            )
        payload = renumber_records(payload, record_count=header.record_count)
    # Checked before the copy: uncompressed, a batch may be many times larger.
    if codec is Codec.NONE:
        _check_rebuilt_size(HEADER_SIZE + len(payload), rules)
    compressed = codecs.compress(codec, payload, rules.level if codec is rules.codec else None)
    _check_rebuilt_size(HEADER_SIZE + len(compressed), rules)
    attributes = header.attributes & KNOWN_ATTRIBUTES & ~CODEC_MASK | codec
    return seal_batch(header._replace(attributes=attributes), compressed)


def _check_rebuilt_size(size: int, rules: AppendRules) -> None:
    if size > rules.max_message_bytes:
        raise MessageTooLarge(
            f"record batch of {size} bytes after it was rebuilt, max.message.bytes is "
            f"{rules.max_message_bytes}"
        )
