"""The header of a batch: fields, CRC, stamping in place."""

import re
from pathlib import Path
from struct import calcsize, pack_into

import pytest

import ledgerstone.records.batch as batch_module
from ledgerstone.errors import (
    CorruptRecord,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from ledgerstone.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Codec,
    TimestampType,
    compute_crc,
    increment_sequence,
    iter_headers,
    read_header,
    stamp_max_timestamp,
    stamp_offset_and_epoch,
    verify_crc,
    write_crc,
    write_header,
)
from ledgerstone.types import INT32_MAX
from tests.unit.records import vectors
from tests.unit.records.vectors import T


def test_header_has_the_fields_of_the_bytes() -> None:
    header = read_header(vectors.COMMIT)

    assert header == BatchHeader(
        base_offset=13,
        batch_length=66,
        leader_epoch=3,
        magic=2,
        crc=0x666330A0,
        attributes=0x30,
        last_offset_delta=0,
        base_timestamp=T,
        max_timestamp=T,
        producer_id=42,
        producer_epoch=1,
        base_sequence=-1,
        record_count=1,
    )
    assert header.is_control
    assert header.is_transactional
    assert header.has_producer_id
    assert header.last_sequence == -1


def test_header_size_is_the_sum_of_its_fields() -> None:
    assert calcsize(">qiibIhiqqqhii") == HEADER_SIZE
    assert read_header(vectors.EMPTY).size == HEADER_SIZE == LOG_OVERHEAD + 49


def test_byte_table_of_the_readme_is_the_one_of_the_code() -> None:
    readme = Path(batch_module.__file__).with_name("README.md").read_text(encoding="utf-8")
    sizes = {"int8": "b", "int16": "h", "int32": "i", "uint32": "I", "int64": "q"}

    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \| (\w+) \|", readme, re.MULTILINE)

    assert tuple(name for _, _, name, _ in rows) == BatchHeader._fields
    assert ">" + "".join(sizes[kind] for _, _, _, kind in rows) == ">qiibIhiqqqhii"
    position = 0
    for at, size, name, kind in rows:
        assert int(at) == position == getattr(batch_module, f"{name.upper()}_AT")
        assert int(size) == calcsize(sizes[kind])
        position += int(size)
    assert position == HEADER_SIZE


def test_compacted_batch_keeps_the_offsets_it_had() -> None:
    header = read_header(vectors.THREE_COMPACTED)

    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 102, 103)
    assert header.record_count == 2


def test_delete_horizon_is_read_from_the_base_timestamp_only_with_the_flag() -> None:
    assert read_header(vectors.STAMPED_TOMBSTONE).delete_horizon_ms == vectors.HORIZON_MS
    assert read_header(vectors.STAMPED_TOMBSTONE).has_delete_horizon
    assert read_header(vectors.TOMBSTONE).delete_horizon_ms is None


def test_empty_batch_still_tells_the_sequences_of_its_producer() -> None:
    header = read_header(vectors.EMPTY)

    assert (header.base_sequence, header.last_sequence) == (5, 7)
    assert header.record_count == 0


@pytest.mark.parametrize(
    ("sequence", "by", "expected"),
    [(0, 0, 0), (5, 2, 7), (INT32_MAX - 1, 1, INT32_MAX), (INT32_MAX, 1, 0), (INT32_MAX, 3, 2)],
)
def test_sequence_wraps_to_zero(sequence: int, by: int, expected: int) -> None:
    assert increment_sequence(sequence, by) == expected


def test_negative_producer_id_is_no_producer_id() -> None:
    header = read_header(vectors.K1_V1)

    assert not header.has_producer_id
    assert not header._replace(producer_id=-7).has_producer_id
    assert header._replace(producer_id=0).has_producer_id


@pytest.mark.parametrize("codec", list(Codec))
def test_codec_is_the_low_three_bits(codec: Codec) -> None:
    header = read_header(vectors.K1_V1)._replace(attributes=0x78 | codec)

    assert header.codec is codec
    assert header.is_compressed is (codec is not Codec.NONE)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_codec_numbers_without_a_codec_are_refused(number: int) -> None:
    header = read_header(vectors.K1_V1)._replace(attributes=number)

    with pytest.raises(UnsupportedCompressionType, match=f"codec {number}"):
        _ = header.codec


def test_codecs_have_the_names_of_the_configuration() -> None:
    names = [codec.config_name for codec in Codec]

    assert names == ["uncompressed", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("name", vectors.ALL)
def test_written_header_is_the_header_that_was_read(name: str) -> None:
    batch = vectors.ALL[name]
    out = bytearray(len(batch))

    write_header(out, 0, read_header(batch))

    assert out[:HEADER_SIZE] == batch[:HEADER_SIZE]


@pytest.mark.parametrize("name", vectors.ALL)
def test_crc_covers_everything_from_the_attributes_on(name: str) -> None:
    batch = vectors.ALL[name]

    verify_crc(b"before" + batch + b"after", 6, read_header(batch))

    for position in range(ATTRIBUTES_AT, len(batch)):
        flipped = bytearray(batch)
        flipped[position] ^= 0x10
        with pytest.raises(CorruptRecord, match="crc"):
            verify_crc(flipped, 0, read_header(batch))


def test_crc_error_names_both_values_and_the_offset() -> None:
    flipped = bytearray(vectors.COMMIT)
    flipped[-1] ^= 1

    with pytest.raises(CorruptRecord, match=r"offset 13: crc 0x[0-9a-f]{8}, stored 0x666330a0"):
        verify_crc(flipped, 0, read_header(flipped))


def test_crc_of_a_batch_that_is_not_all_there_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="71 bytes of 72"):
        verify_crc(vectors.K1_V1[:-1], 0, read_header(vectors.K1_V1))


def test_crc_is_the_castagnoli_one() -> None:
    assert compute_crc(bytes(ATTRIBUTES_AT) + b"123456789", 0, ATTRIBUTES_AT + 9) == 0xE3069283


def test_short_header_is_corrupt() -> None:
    for size in range(HEADER_SIZE):
        with pytest.raises(CorruptRecord, match=f"{size} bytes"):
            read_header(vectors.K1_V1[:size])


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_batch_length_below_a_header_is_corrupt(length: int) -> None:
    batch = bytearray(vectors.K1_V1)
    pack_into(">i", batch, 8, length)

    with pytest.raises(CorruptRecord, match=f"batch length {length}"):
        read_header(batch)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_named_as_such(magic: int) -> None:
    batch = bytearray(vectors.K1_V1)
    batch[16] = magic

    with pytest.raises(UnsupportedForMessageFormat, match=rf"magic {magic}, .* Kafka 0\.11"):
        read_header(batch)
    with pytest.raises(UnsupportedForMessageFormat):
        read_header(batch[:34])


@pytest.mark.parametrize("magic", [3, 0x7F, 0x80, 0xFF])
def test_unknown_magic_is_corrupt(magic: int) -> None:
    batch = bytearray(vectors.K1_V1)
    batch[16] = magic

    with pytest.raises(CorruptRecord, match="magic"):
        read_header(batch)


def test_zeros_after_the_last_batch_are_corrupt_not_old() -> None:
    with pytest.raises(CorruptRecord, match="magic 0 with batch length 0"):
        read_header(bytes(100))


def test_iteration_gives_each_batch_at_its_position() -> None:
    buffer = vectors.K1_V1 + vectors.TOMBSTONE + vectors.COMMIT

    found = list(iter_headers(buffer))

    assert [(position, header.base_offset) for position, header in found] == [
        (0, 0),
        (72, 7),
        (142, 13),
    ]
    assert list(iter_headers(buffer, start=72, end=142)) == found[1:2]


def test_incomplete_tail_ends_the_iteration_silently() -> None:
    for size in range(len(vectors.TOMBSTONE)):
        buffer = vectors.K1_V1 + vectors.TOMBSTONE[:size]

        assert [position for position, _ in iter_headers(buffer)] == [0]


def test_tail_is_cut_at_the_end_asked_for_even_if_more_bytes_follow() -> None:
    buffer = vectors.K1_V1 + vectors.TOMBSTONE

    assert [position for position, _ in iter_headers(buffer, end=len(buffer) - 1)] == [0]


def test_iteration_raises_at_a_tail_that_can_never_become_a_batch() -> None:
    tail = bytearray(vectors.TOMBSTONE[:20])
    tail[16] = 9

    with pytest.raises(CorruptRecord, match="position 72: magic 9"):
        list(iter_headers(vectors.K1_V1 + tail))


def test_stamping_offset_and_epoch_leaves_the_crc_alone() -> None:
    buffer = bytearray(b"xx" + vectors.THREE)

    stamp_offset_and_epoch(memoryview(buffer), 2, base_offset=2**40, leader_epoch=77)

    header = read_header(buffer, 2)
    assert (header.base_offset, header.leader_epoch) == (2**40, 77)
    verify_crc(buffer, 2, header)
    assert buffer[2 + CRC_AT :] == vectors.THREE[CRC_AT:]


def test_stamping_the_timestamp_sets_flag_maximum_and_crc() -> None:
    buffer = bytearray(b"xx" + vectors.THREE)

    stamp_max_timestamp(
        buffer, 2, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=T + 500
    )

    header = read_header(buffer, 2)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.base_timestamp, header.max_timestamp) == (T, T + 500)
    verify_crc(buffer, 2, header)


def test_stamping_what_is_already_there_changes_nothing_not_even_a_wrong_crc() -> None:
    buffer = bytearray(vectors.THREE)
    buffer[CRC_AT] ^= 0xFF
    before = bytes(buffer)

    stamp_max_timestamp(buffer, 0, timestamp_type=TimestampType.CREATE_TIME, max_timestamp=T + 20)

    assert buffer == before


def test_stamping_the_timestamp_drops_attribute_bits_without_a_meaning() -> None:
    buffer = bytearray(vectors.STAMPED_TOMBSTONE)
    buffer[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = b"\xff\xc0"
    write_crc(buffer, 0, len(buffer))

    stamp_max_timestamp(buffer, 0, timestamp_type=TimestampType.CREATE_TIME, max_timestamp=T + 1)

    assert read_header(buffer).attributes == 0x40
