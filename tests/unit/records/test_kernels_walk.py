"""`scan` and `walk`: windows of batches as columns."""

import numpy as np
import pytest

from ledgerstone.errors import (
    CorruptRecord,
    MessageTooLarge,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from ledgerstone.records.batch import Codec, TimestampType, write_crc
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import Columns, scan, walk
from ledgerstone.records.record import MalformedRecord, RecordFault
from tests.unit.records import vectors


def _bytes_of(columns: Columns, start: int, length: int) -> bytes | None:
    source, shift = (
        (columns.arena, columns.split) if start >= columns.split else (columns.buffer, 0)
    )
    return None if length < 0 else bytes(source[start - shift : start - shift + length])


def _values(columns: Columns) -> list[bytes | None]:
    spans = zip(columns.value_start.tolist(), columns.value_length.tolist(), strict=True)
    return [_bytes_of(columns, start, length) for start, length in spans]


def _batch(base_offset: int, *values: bytes, codec: Codec = Codec.NONE) -> bytearray:
    return build_batch([(7, b"k", v, ()) for v in values], base_offset=base_offset, codec=codec)


def test_columns_hold_spans_of_keys_values_and_headers() -> None:
    columns = walk(vectors.THREE)

    assert columns.offset.tolist() == [100, 101, 102]
    assert columns.timestamp.tolist() == [vectors.T, vectors.T + 10, vectors.T + 20]
    assert _values(columns) == [b"1", b"2", b"3"]
    assert columns.header_count.tolist() == [2, 0, 0]
    assert columns.headers_length.tolist() == [7, 0, 0]
    assert columns.consumed == len(vectors.THREE)


def test_batch_rows_carry_the_header_fields() -> None:
    batches = scan(vectors.COMMIT + vectors.STAMPED_TOMBSTONE + vectors.EMPTY)

    assert batches.position.tolist() == [0, 78, 151]
    assert batches.base_offset.tolist() == [13, 7, 10]
    assert batches.last_offset.tolist() == [13, 7, 12]
    assert batches.producer_id.tolist() == [42, -1, 42]
    assert batches.base_sequence.tolist() == [-1, -1, 5]
    assert batches.record_count.tolist() == [1, 1, 0]
    assert batches.is_control.tolist() == [True, False, False]
    assert batches.delete_horizon_ms.tolist() == [-1, vectors.HORIZON_MS, -1]


def test_more_batches_than_the_first_guess_are_all_found() -> None:
    count = 1000

    batches = scan(vectors.K1_V1 * count)

    assert batches.position.tolist() == [72 * i for i in range(count)]
    assert batches.rows.flags.c_contiguous


def test_record_timestamp_under_a_delete_horizon_is_the_original_one() -> None:
    columns = walk(vectors.STAMPED_TOMBSTONE)

    assert columns.timestamp.tolist() == [vectors.T]
    assert columns.value_length.tolist() == [-1]


def test_every_record_of_a_log_append_time_batch_has_the_batch_timestamp() -> None:
    batch = build_batch(
        [(1, b"a", b"1", ()), (2, b"b", b"2", ())],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp=99,
    )

    assert walk(batch).timestamp.tolist() == [99, 99]


def test_timestamp_past_64_bits_wraps_as_kafka_does() -> None:
    batch = build_batch([(2**63 - 1, b"a", b"1", ())])
    wrapped = bytearray(batch)
    payload = b"\x10\x00\x02\x00\x02a\x021\x00"
    wrapped[61:] = payload
    wrapped[8:12] = (len(wrapped) - 12).to_bytes(4, "big")
    write_crc(wrapped, 0, len(wrapped))

    assert walk(wrapped).timestamp.tolist() == [-(2**63)]


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_payloads_are_walked_in_the_arena(codec: Codec) -> None:
    window = _batch(0, b"x" * 50) + _batch(1, b"y" * 60, b"z", codec=codec) + _batch(3, b"w")

    columns = walk(window)

    assert _values(columns) == [b"x" * 50, b"y" * 60, b"z", b"w"]
    assert columns.batch_index.tolist() == [0, 1, 1, 2]
    assert columns.batches.record_start.tolist() == [0, 1, 3]
    assert (columns.end > columns.split) == (codec is not Codec.NONE)


def test_incomplete_tail_is_left_for_the_next_window() -> None:
    window = vectors.K1_V1 + vectors.THREE

    for end in range(len(vectors.K1_V1), len(window)):
        columns = walk(window, end=end)
        assert columns.offset.tolist() == [0]
        assert columns.consumed == len(vectors.K1_V1)


def test_records_below_the_minimum_are_left_out() -> None:
    window = _batch(0, b"a", b"b") + _batch(2, b"c", b"d", b"e")

    columns = walk(window, min_offset=3)

    assert columns.offset.tolist() == [3, 4]
    assert columns.batch_index.tolist() == [1, 1]


def test_batches_below_the_minimum_are_not_even_checked() -> None:
    damaged = _batch(0, b"a")
    damaged[-2] ^= 1

    columns = walk(damaged + _batch(1, b"b"), min_offset=1)

    assert columns.offset.tolist() == [1]


def test_skipped_batches_are_not_parsed() -> None:
    damaged = _batch(0, b"a")
    damaged[-2] ^= 1

    columns = walk(damaged + _batch(1, b"b"), skip=np.array([True, False]))

    assert columns.offset.tolist() == [1]
    assert columns.batches.record_start.tolist() == [0, 0]


def test_wrong_crc_is_corrupt_unless_the_caller_has_checked_it() -> None:
    damaged = _batch(0, b"a")
    damaged[-2] ^= 1

    with pytest.raises(CorruptRecord, match="crc"):
        walk(damaged)
    assert _values(walk(damaged, verify_crc=False)) == [b"`"]


def test_record_count_that_the_bytes_cannot_hold_is_corrupt_before_anything_is_allocated() -> None:
    batch = _batch(0, b"a")
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")

    with pytest.raises(CorruptRecord, match="2147483647 records"):
        walk(batch, verify_crc=False)


def test_malformed_record_names_its_batch_record_and_position() -> None:
    batch = _batch(5, b"a", b"b" * 20)
    batch[-1] = 2

    with pytest.raises(MalformedRecord) as caught:
        walk(batch, verify_crc=False)

    assert caught.value.fault is RecordFault.BAD_HEADER_COUNT
    assert caught.value.index == 1
    assert caught.value.position == len(batch) - 61 - 1
    assert "offset 5" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("at", "value", "error"),
    [
        (16, b"\x01", UnsupportedForMessageFormat),
        (16, b"\x03", CorruptRecord),
        (8, b"\x00\x00\x00\x30", CorruptRecord),
        (8, b"\xff\xff\xff\xff", CorruptRecord),
        (57, b"\xff\xff\xff\xff", CorruptRecord),
        (22, b"\x05", UnsupportedCompressionType),
    ],
)
def test_header_that_cannot_be_is_refused(at: int, value: bytes, error: type[Exception]) -> None:
    batch = bytearray(vectors.K1_V1)
    batch[at : at + len(value)] = value

    with pytest.raises(error):
        walk(batch, verify_crc=False)


def test_codec_of_an_empty_batch_must_be_one_too() -> None:
    batch = bytearray(vectors.EMPTY)
    batch[22] |= 7

    with pytest.raises(UnsupportedCompressionType):
        walk(batch, verify_crc=False)


def test_walk_stops_before_the_payload_that_passes_the_limit() -> None:
    window = _batch(0, bytes(400), codec=Codec.ZSTD) + _batch(1, bytes(400), codec=Codec.ZSTD)

    first = walk(window, limit=1000)
    second = walk(window, start=first.consumed, limit=1000)

    assert (first.offset.tolist(), second.offset.tolist()) == ([0], [1])
    assert second.consumed == len(window)


def test_payload_that_passes_the_limit_alone_is_too_large() -> None:
    with pytest.raises(MessageTooLarge):
        walk(_batch(0, bytes(4000), codec=Codec.ZSTD), limit=1000)


def test_window_outside_the_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="window"):
        walk(vectors.K1_V1, end=len(vectors.K1_V1) + 1)


def test_empty_buffer_has_no_records() -> None:
    columns = walk(b"")

    assert len(columns) == 0
    assert columns.consumed == 0
