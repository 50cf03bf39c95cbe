"""Batches from records: the known bytes, and what a rebuild keeps."""

import pytest

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Codec,
    TimestampType,
    read_header,
    verify_crc,
)
from ledgerstone.records.builder import (
    build_batch,
    empty_batch,
    rebuild_with_codec,
    renumber_records,
)
from ledgerstone.records.record import Record, iter_records, plain_inspect_records
from tests.unit.records import vectors
from tests.unit.records.vectors import T


def test_one_record_has_the_known_bytes() -> None:
    assert build_batch([(T, b"k1", b"v1", ())], leader_epoch=0) == vectors.K1_V1


def test_tombstone_has_the_known_bytes() -> None:
    batch = build_batch([(T, b"k1", None, ())], base_offset=7, leader_epoch=3)

    assert batch == vectors.TOMBSTONE


def test_tombstone_with_a_horizon_has_the_known_bytes() -> None:
    batch = build_batch(
        [(T, b"k1", None, ())],
        base_offset=7,
        leader_epoch=3,
        delete_horizon_ms=vectors.HORIZON_MS,
    )

    assert batch == vectors.STAMPED_TOMBSTONE


def test_headers_and_deltas_have_the_known_bytes() -> None:
    records = [record[1:] for record in vectors.THREE_RECORDS]

    assert build_batch(records, base_offset=100, leader_epoch=5) == vectors.THREE


def test_compacted_batch_has_the_known_bytes() -> None:
    kept = vectors.THREE_RECORDS[1:]

    batch = build_batch(
        [record[1:] for record in kept],
        base_offset=100,
        leader_epoch=5,
        offsets=[record.offset for record in kept],
        last_offset_delta=2,
    )

    assert batch == vectors.THREE_COMPACTED


def test_empty_batch_has_the_known_bytes_whatever_the_full_one_had() -> None:
    full = build_batch(
        [(T, b"k", None, ())] * 3,
        base_offset=10,
        leader_epoch=3,
        codec=Codec.LZ4,
        producer_id=42,
        producer_epoch=1,
        base_sequence=5,
        delete_horizon_ms=vectors.HORIZON_MS,
    )

    assert empty_batch(read_header(full)) == vectors.EMPTY


def test_empty_batch_keeps_the_flags_that_are_not_about_records() -> None:
    header = read_header(vectors.COMMIT)._replace(attributes=0x7B)

    assert read_header(empty_batch(header)).attributes == 0x38


def test_records_without_timestamps_leave_none_in_the_header() -> None:
    header = read_header(build_batch([(None, b"k", b"v", ())] * 2))

    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)


def test_fields_of_the_header_come_from_the_arguments() -> None:
    batch = build_batch(
        [(T, b"k", b"v", ()), (T - 5, b"k", b"v", ())],
        base_offset=3,
        leader_epoch=4,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        transactional=True,
        max_timestamp=T + 1,
    )

    header = read_header(batch)
    verify_crc(batch, 0, header)
    assert header == BatchHeader(
        3, len(batch) - 12, 4, 2, header.crc, 0x18, 1, T, T + 1, 5, 6, 7, 2
    )


def test_batch_without_records_is_not_built() -> None:
    with pytest.raises(InvariantViolation, match="no records"):
        build_batch([])


def test_offsets_must_be_as_many_as_records() -> None:
    with pytest.raises(InvariantViolation, match="2 offsets for 1 records"):
        build_batch([(T, b"k", b"v", ())], offsets=[0, 1])


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(Codec))
def test_rebuild_changes_the_codec_and_nothing_else(source: Codec, target: Codec) -> None:
    records = [(T + i, b"k%d" % i, b"v" * i, (("h", None),)) for i in range(50)]
    batch = build_batch(
        records,
        base_offset=9,
        codec=source,
        producer_id=42,
        producer_epoch=1,
        base_sequence=5,
        transactional=True,
    )

    rebuilt = rebuild_with_codec(batch, target, None)

    header = read_header(rebuilt)
    verify_crc(rebuilt, 0, header)
    assert header.codec is target
    assert list(iter_records(rebuilt)) == list(iter_records(batch))
    lengths_and_crc = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert header._replace(**lengths_and_crc) == read_header(batch)._replace(**lengths_and_crc)
    assert header.is_transactional


def test_uncompressed_rebuild_of_a_compressed_batch_is_the_uncompressed_batch() -> None:
    records = [record[1:] for record in vectors.THREE_RECORDS]
    batch = build_batch(records, base_offset=100, leader_epoch=5, codec=Codec.ZSTD)

    assert rebuild_with_codec(batch, Codec.NONE) == vectors.THREE


def test_rebuilt_empty_batch_claims_no_codec() -> None:
    assert rebuild_with_codec(vectors.EMPTY, Codec.GZIP) == vectors.EMPTY


def test_renumbered_records_differ_only_in_their_offset_deltas() -> None:
    parts = [(T + i, b"k", None, (("h", b"x" * i),)) for i in range(100)]
    batch = build_batch(parts, offsets=[i * i for i in range(100)])

    payload = renumber_records(batch[HEADER_SIZE:], record_count=100)

    assert plain_inspect_records(payload, record_count=100).sequential
    assert payload == build_batch(parts)[HEADER_SIZE:]
    assert [record.offset for record in iter_records(batch)] == [i * i for i in range(100)]
    assert next(iter_records(batch)) == Record(0, T, b"k", None, (("h", b""),))
