"""Batches against two decoders that are not ours: kafka-python and aiokafka, both directions."""

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.records.batch import (
    Codec,
    TimestampType,
    read_header,
    verify_crc,
)
from ledgerstone.records.builder import (
    RecordParts,
    build_batch,
    empty_batch,
    rebuild_with_codec,
)
from ledgerstone.records.record import Record, iter_records, plain_inspect_records
from ledgerstone.records.validation import AppendRules, validate_produced
from ledgerstone.types import INT64_MAX
from tests.kit.sized import examples

with warnings.catch_warnings():
    # kafka-python reads its schemas through a call that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

CODECS = list(Codec)
# kafka-python needs an extra package to read snappy.
KAFKA_PYTHON_CODECS = [codec for codec in Codec if codec is not Codec.SNAPPY]

timestamps = st.integers(0, 2**43)
blobs = st.none() | st.binary(max_size=300) | st.sampled_from([b"", b"\x00" * 70_000])
headers = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=40)), max_size=4)
parts = st.tuples(timestamps, blobs, blobs, headers.map(tuple))
record_lists = st.lists(parts, min_size=1, max_size=12)
RULES = AppendRules(
    compacted=False,
    max_message_bytes=2**31 - 1,
    timestamp_type=TimestampType.CREATE_TIME,
    timestamp_before_max_ms=INT64_MAX,
    timestamp_after_max_ms=INT64_MAX,
    codec=None,
    level=None,
)


def expected(records: Sequence[RecordParts], base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + index, timestamp or 0, key, value, tuple(headers))
        for index, (timestamp, key, value, headers) in enumerate(records)
    ]


def read_by(decoder: Any, batch: bytearray) -> list[Record]:
    found = decoder(bytes(batch))
    assert found.validate_crc()
    return [
        Record(
            record.offset,
            record.timestamp,
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
            tuple((key, None if value is None else bytes(value)) for key, value in record.headers),
        )
        for record in found
    ]


def built_by(builder: Any, codec: Codec, records: Sequence[RecordParts]) -> bytearray:
    batch = builder(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=42,
        producer_epoch=3,
        base_sequence=7,
        batch_size=2**30,
    )
    for index, (timestamp, key, value, record_headers) in enumerate(records):
        batch.append(
            index,
            timestamp=timestamp,
            key=key,
            value=value,
            headers=list(record_headers),
        )
    return bytearray(batch.build())


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
@examples(25)
@given(records=record_lists, base_offset=st.integers(0, 2**62))
def test_kafka_python_reads_what_we_write(
    codec: Codec, records: list[RecordParts], base_offset: int
) -> None:
    batch = build_batch(records, codec=codec, base_offset=base_offset)

    assert read_by(KafkaPythonBatch, batch) == expected(records, base_offset)


@pytest.mark.parametrize("codec", CODECS)
@examples(25)
@given(records=record_lists, base_offset=st.integers(0, 2**62))
def test_aiokafka_reads_what_we_write(
    codec: Codec, records: list[RecordParts], base_offset: int
) -> None:
    batch = build_batch(records, codec=codec, base_offset=base_offset)

    assert read_by(AiokafkaBatch, batch) == expected(records, base_offset)


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
@examples(25)
@given(records=record_lists)
def test_we_read_what_kafka_python_writes(codec: Codec, records: list[RecordParts]) -> None:
    check_foreign_batch(built_by(KafkaPythonBuilder, codec, records), records)


@pytest.mark.parametrize("codec", CODECS)
@examples(25)
@given(records=record_lists)
def test_we_read_what_aiokafka_writes(codec: Codec, records: list[RecordParts]) -> None:
    check_foreign_batch(built_by(AiokafkaBuilder, codec, records), records)


def check_foreign_batch(batch: bytearray, records: Sequence[RecordParts]) -> None:
    header = read_header(batch)
    verify_crc(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (42, 3, 7)
    assert list(iter_records(batch)) == expected(records)

    validated = validate_produced(batch, RULES, now_ms=0, inspect=plain_inspect_records)

    latest = max(timestamp or 0 for timestamp, _, _, _ in records)
    assert validated.data is batch
    assert validated.max_timestamp == validated.header.max_timestamp == latest
    assert list(iter_records(batch)) == expected(records)


@given(records=record_lists)
def test_uncompressed_bytes_are_the_same_as_those_of_kafka_python(
    records: list[RecordParts],
) -> None:
    ours = build_batch(
        records,
        producer_id=42,
        producer_epoch=3,
        base_sequence=7,
        transactional=True,
        leader_epoch=0,
    )

    theirs = built_by(KafkaPythonBuilder, Codec.NONE, records)

    # Each writes its own leader epoch there; it lies outside the CRC.
    theirs[12:16] = ours[12:16]
    assert ours == theirs


@given(
    records=record_lists,
    gaps=st.lists(st.integers(1, 1000), min_size=12, max_size=12),
    horizon_ms=st.none() | st.integers(0, 2**43),
    tail=st.integers(0, 1000),
)
def test_thinned_out_batch_keeps_offsets_and_timestamps(
    records: list[RecordParts], gaps: list[int], horizon_ms: int | None, tail: int
) -> None:
    offsets = [100 + sum(gaps[: index + 1]) for index in range(len(records))]

    batch = build_batch(
        records,
        base_offset=100,
        offsets=offsets,
        last_offset_delta=offsets[-1] - 100 + tail,
        delete_horizon_ms=horizon_ms,
    )

    header = read_header(batch)
    kept = [record._replace(offset=offsets[record.offset]) for record in expected(records)]
    assert list(iter_records(batch)) == kept
    assert read_by(AiokafkaBatch, batch) == kept
    assert header.delete_horizon_ms == horizon_ms
    assert header.next_offset == offsets[-1] + tail + 1
    assert read_header(empty_batch(header)).next_offset == header.next_offset


@given(records=record_lists, codec=st.sampled_from(CODECS), other=st.sampled_from(CODECS))
def test_rebuild_there_and_back_gives_the_same_records(
    records: list[RecordParts], codec: Codec, other: Codec
) -> None:
    batch = build_batch(records, codec=codec)

    rebuilt = rebuild_with_codec(rebuild_with_codec(batch, other), Codec.NONE)

    assert rebuilt == build_batch(records)
