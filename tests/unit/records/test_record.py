"""Records one at a time: values, timestamps, faults."""

from struct import pack_into

import pytest

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import HEADER_SIZE, Codec, TimestampType, read_header
from ledgerstone.records.builder import build_batch, seal_batch
from ledgerstone.records.record import (
    MalformedRecord,
    Record,
    RecordFault,
    iter_records,
    iter_spans,
    plain_inspect_records,
    records_payload,
)
from ledgerstone.records.records_facts import RecordsFacts
from ledgerstone.records.varint import encode_varint
from tests.unit.records import vectors
from tests.unit.records.vectors import T


def record(body: str) -> bytes:
    """A record with the right length before the bytes of its body."""
    content = bytes.fromhex(body)
    out = bytearray()
    encode_varint(out, len(content))
    return bytes(out + content)


# attributes, timestamp delta 0, offset delta 0, key "k", value "v", no headers
PLAIN = record("00 00 00 02 6b 02 76 00")


def test_records_of_the_known_batches() -> None:
    assert list(iter_records(vectors.K1_V1)) == [Record(0, T, b"k1", b"v1", ())]
    assert list(iter_records(vectors.TOMBSTONE)) == [Record(7, T, b"k1", None, ())]
    assert tuple(iter_records(vectors.THREE)) == vectors.THREE_RECORDS
    assert tuple(iter_records(vectors.THREE_COMPACTED)) == vectors.THREE_RECORDS[1:]
    assert list(iter_records(vectors.EMPTY)) == []


def test_record_keeps_its_timestamp_when_the_horizon_makes_the_delta_negative() -> None:
    assert list(iter_records(vectors.STAMPED_TOMBSTONE)) == list(iter_records(vectors.TOMBSTONE))


def test_records_are_read_from_the_middle_of_a_buffer() -> None:
    buffer = memoryview(vectors.K1_V1 + vectors.THREE + b"tail")

    assert tuple(iter_records(buffer, 72)) == vectors.THREE_RECORDS


def test_log_append_time_is_the_timestamp_of_every_record() -> None:
    batch = build_batch(
        [(T, b"a", b"1", ()), (T + 5, b"b", b"2", ())],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp=T + 99,
    )

    assert [record.timestamp for record in iter_records(batch)] == [T + 99, T + 99]


def test_empty_key_and_empty_value_are_not_null() -> None:
    batch = build_batch([(T, b"", b"", ()), (T, None, None, (("", b""),))])

    assert list(iter_records(batch)) == [
        Record(0, T, b"", b"", ()),
        Record(1, T, None, None, (("", b""),)),
    ]


def test_empty_batch_opens_no_stream_whatever_its_codec_bits_say() -> None:
    header = read_header(vectors.EMPTY)._replace(attributes=Codec.ZSTD)

    assert list(iter_records(seal_batch(header, b""))) == []


def test_empty_batch_with_bytes_after_the_header_is_malformed() -> None:
    with pytest.raises(MalformedRecord, match="TRAILING_BYTES"):
        list(iter_records(seal_batch(read_header(vectors.EMPTY), b"\x00")))


def test_batch_that_is_not_all_there_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="71 bytes of 72"):
        list(iter_records(vectors.K1_V1[:-1]))


def test_header_key_that_is_not_utf_8_is_corrupt() -> None:
    payload = record("00 00 00 02 6b 02 76 02 02 ff 00")
    batch = seal_batch(read_header(vectors.K1_V1), payload)

    with pytest.raises(CorruptRecord, match="record 0: header key is not UTF-8"):
        list(iter_records(batch))
    assert plain_inspect_records(payload, record_count=1).status == RecordFault.NONE


def test_timestamp_beyond_int64_wraps_as_it_does_in_java() -> None:
    batch = bytearray(build_batch([(T, b"a", b"1", ()), (T + 5, b"b", b"2", ())]))
    pack_into(">q", batch, 27, 2**63 - 1)

    timestamps = [record.timestamp for record in iter_records(batch)]

    assert timestamps == [2**63 - 1, -(2**63) + 4]


def test_uncompressed_payload_is_not_copied() -> None:
    batch = bytearray(vectors.K1_V1)

    payload = records_payload(batch, 0, read_header(batch))

    batch[-3] = ord("x")
    assert payload[-3] == ord("x")


def test_facts_of_a_payload() -> None:
    batch = build_batch(
        [
            (T, b"a", b"1", ()),
            (T + 7, None, b"2", ()),
            (T + 7, b"c", None, ()),
            (T - 3, None, None, (("h", None),)),
        ],
        offsets=[0, 1, 2, 9],
    )

    facts = plain_inspect_records(memoryview(batch)[HEADER_SIZE:], record_count=4)

    assert facts == RecordsFacts(
        status=RecordFault.NONE,
        fault_index=-1,
        fault_position=-1,
        max_timestamp_delta=7,
        max_timestamp_index=1,
        min_timestamp_delta=-3,
        null_key_count=2,
        first_null_key_index=1,
        sequential=False,
        tombstone_count=2,
        last_offset_delta=9,
    )


def test_facts_of_no_records() -> None:
    facts = plain_inspect_records(b"", record_count=0)

    assert facts == RecordsFacts(RecordFault.NONE, -1, -1, 0, -1, 0, 0, -1, True, 0, -1)


FAULTS = {
    "record cut short": (PLAIN + PLAIN[:-1], 2, RecordFault.TRUNCATED, 1, 9),
    "length cut short": (PLAIN + b"\x80", 2, RecordFault.TRUNCATED, 1, 9),
    "length too long": (b"\x80" * 5 + b"\x00", 1, RecordFault.VARINT_TOO_LONG, 0, 0),
    "length negative": (b"\x01" + PLAIN, 1, RecordFault.NEGATIVE_LENGTH, 0, 0),
    "no body": (b"\x00", 1, RecordFault.LENGTH_MISMATCH, 0, 1),
    "body ends after attributes": (record("00"), 1, RecordFault.LENGTH_MISMATCH, 0, 2),
    "timestamp delta too long": (
        record("00" + "80" * 10 + "00"),
        1,
        RecordFault.VARINT_TOO_LONG,
        0,
        2,
    ),
    "offset delta has 33 bits": (
        record("00 00 80 80 80 80 10"),
        1,
        RecordFault.VARINT_TOO_LONG,
        0,
        3,
    ),
    "key length below -1": (record("00 00 00 03 00 00"), 1, RecordFault.NEGATIVE_LENGTH, 0, 4),
    "key passes its record": (record("00 00 00 08 6b"), 1, RecordFault.LENGTH_MISMATCH, 0, 4),
    "value length below -1": (record("00 00 00 01 03 00"), 1, RecordFault.NEGATIVE_LENGTH, 0, 5),
    "value passes its record": (
        record("00 00 00 01 04 76") + PLAIN,
        2,
        RecordFault.LENGTH_MISMATCH,
        0,
        5,
    ),
    "no header count": (record("00 00 00 01 01"), 1, RecordFault.LENGTH_MISMATCH, 0, 6),
    "header count negative": (record("00 00 00 01 01 01"), 1, RecordFault.BAD_HEADER_COUNT, 0, 6),
    "header count above bytes left": (
        record("00 00 00 01 01 06 00 01"),
        1,
        RecordFault.BAD_HEADER_COUNT,
        0,
        6,
    ),
    "header key null": (record("00 00 00 01 01 02 01 01"), 1, RecordFault.NULL_HEADER_KEY, 0, 7),
    "header key passes its record": (
        record("00 00 00 01 01 02 08 01"),
        1,
        RecordFault.LENGTH_MISMATCH,
        0,
        7,
    ),
    "header value below -1": (
        record("00 00 00 01 01 02 00 03"),
        1,
        RecordFault.NEGATIVE_LENGTH,
        0,
        8,
    ),
    "bytes left over in a record": (
        record("00 00 00 02 6b 02 76 00 00"),
        1,
        RecordFault.LENGTH_MISMATCH,
        0,
        9,
    ),
    "bytes after the last record": (PLAIN + b"\x00", 1, RecordFault.TRAILING_BYTES, 1, 9),
    "fewer records than declared": (PLAIN + PLAIN, 3, RecordFault.COUNT_MISMATCH, 2, 18),
    "negative record count": (PLAIN, -1, RecordFault.COUNT_MISMATCH, 0, 0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_with_its_record_and_position(name: str) -> None:
    payload, record_count, fault, index, position = FAULTS[name]

    facts = plain_inspect_records(payload, record_count=record_count)

    assert (facts.status, facts.fault_index, facts.fault_position) == (fault, index, position)
    with pytest.raises(MalformedRecord, match=f"record {index} .* {position}: {fault.name}"):
        list(iter_spans(payload, record_count=record_count))


def test_every_fault_has_an_example() -> None:
    assert {fault for _, _, fault, _, _ in FAULTS.values()} == set(RecordFault) - {RecordFault.NONE}


def test_huge_record_count_costs_nothing_before_the_bytes_end() -> None:
    facts = plain_inspect_records(PLAIN, record_count=2**31 - 1)

    assert (facts.status, facts.fault_index) == (RecordFault.COUNT_MISMATCH, 1)
