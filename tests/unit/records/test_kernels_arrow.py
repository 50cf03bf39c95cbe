"""`to_arrow`: what a connector shows of a window."""

import pyarrow as pa
import pytest

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.arrow import ALL_COLUMNS, BinaryLayout, to_arrow
from ledgerstone.records.batch import Codec, TimestampType
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import gathering, walk
from tests.oracles.plain_arrow import plain_rows
from tests.unit.records import vectors

WINDOW = (
    vectors.THREE
    + vectors.TOMBSTONE
    + vectors.COMMIT
    + bytes(build_batch([(5, None, b"v" * 40, (("", b""),))], codec=Codec.ZSTD))
    + bytes(
        build_batch(
            [(1, b"", b"", ())], timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=9
        )
    )
)
READ_COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")


def _rows(batch: pa.RecordBatch) -> list[dict[str, object]]:
    at = batch.schema.get_field_index("timestamp")
    numbers = batch.column(at).view(pa.int64())
    rows: list[dict[str, object]] = batch.set_column(at, "timestamp", numbers).to_pylist()
    return rows


@pytest.mark.parametrize("layout", list(BinaryLayout))
def test_rows_are_those_of_the_plain_reader(layout: BinaryLayout) -> None:
    batch = to_arrow(walk(WINDOW), READ_COLUMNS, layout=layout)

    batch.validate(full=True)
    assert _rows(batch) == plain_rows(WINDOW)


def test_types_are_those_of_the_kafka_connector() -> None:
    batch = to_arrow(walk(WINDOW), ALL_COLUMNS, topic="t", partition=3)

    assert batch.schema.names == list(ALL_COLUMNS)
    assert batch.schema.types == [
        pa.binary(),
        pa.binary(),
        pa.string(),
        pa.int32(),
        pa.int64(),
        pa.timestamp("us", tz="UTC"),
        pa.int32(),
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    ]
    assert batch.column(2).to_pylist() == ["t"] * len(batch)
    assert batch.column(3).to_pylist() == [3] * len(batch)


def test_control_records_are_left_out() -> None:
    batch = to_arrow(walk(vectors.COMMIT), ALL_COLUMNS)

    assert batch.num_rows == 0


def test_only_the_columns_asked_for_are_made() -> None:
    batch = to_arrow(walk(WINDOW), ["offset"])

    assert batch.schema.names == ["offset"]
    assert batch.get_total_buffer_size() == 8 * batch.num_rows


def test_views_copy_no_long_value() -> None:
    window = bytes(build_batch([(0, b"k" * 20, b"v" * 500, ())] * 10))

    column = to_arrow(walk(window), ["value"], layout=BinaryLayout.VIEWS).column(0)

    assert column.buffers()[2].address == pa.py_buffer(window).address
    assert column.to_pylist() == [b"v" * 500] * 10


def test_bytes_past_the_reach_of_int32_offsets_become_large_binary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = to_arrow(walk(WINDOW), ["value"]).column(0).to_pylist()
    monkeypatch.setattr(gathering, "INT32_MAX", 10)

    column = to_arrow(walk(WINDOW), ["value"]).column(0)

    column.validate(full=True)
    assert column.type == pa.large_binary()
    assert column.to_pylist() == expected


def test_unknown_column_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'vlaue'"):
        to_arrow(walk(WINDOW), ["vlaue"])


def test_timestamp_that_has_no_microseconds_is_refused() -> None:
    window = build_batch([(0, b"a", b"1", ()), (2**62, b"a", b"2", ())], base_offset=40)

    with pytest.raises(CorruptRecord, match="offset 41"):
        to_arrow(walk(window))


def test_header_key_that_is_not_utf8_is_corrupt() -> None:
    window = build_batch([(0, b"a", b"1", (("é", b"x"),))])
    window[window.index("é".encode())] = 0xFF

    with pytest.raises(CorruptRecord, match="UTF-8"):
        to_arrow(walk(window, verify_crc=False), ["headers"])
