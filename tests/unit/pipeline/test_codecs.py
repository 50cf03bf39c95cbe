"""Bytes to columns: the quick way against the slow one, and every reason a record is bad."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.codecs import decode_each, decoder
from ledgerstone.pipeline.codecs_json import read_json_lines
from ledgerstone.pipeline.column_types import ColumnType
from ledgerstone.pipeline.converting import strict_json
from ledgerstone.pipeline.definition import Column, ColumnCodec, Format
from ledgerstone.pipeline.schema_registry import registered_schema
from tests.kit.sized import examples

COLUMNS = (
    Column(name="name", type=ColumnType.STRING, path=("name",)),
    Column(name="age", type=ColumnType.INT64, path=("age",)),
    Column(name="city", type=ColumnType.STRING, path=("home", "city")),
    Column(name="ok", type=ColumnType.BOOLEAN, path=("home", "ok")),
)
JSON = ColumnCodec(format=Format.JSON, columns=COLUMNS)


def plain(cell: bytes) -> object:
    return strict_json(cell.decode())


_LEAVES = st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.text(max_size=5)
_OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.none() | st.text(max_size=8) | _LEAVES,
        "age": st.none() | st.integers(-(2**63), 2**63 - 1) | _LEAVES,
        "home": st.none()
        | st.fixed_dictionaries({}, optional={"city": st.text(max_size=3), "ok": _LEAVES}),
        "else": _LEAVES | st.lists(_LEAVES, max_size=2),
    },
)
_CELLS = st.none() | _OBJECTS.map(lambda made: json.dumps(made).encode()) | st.binary(max_size=8)


@given(st.lists(_CELLS, max_size=40))
@examples(100)
def test_json_is_decoded_the_same_quickly_and_one_by_one(cells: list[bytes | None]) -> None:
    column = pa.array(cells, pa.binary())

    quick = decoder(JSON)(column)
    slow = decode_each(COLUMNS, column, plain)

    assert quick == slow


@given(st.lists(_OBJECTS.map(lambda made: json.dumps(made).encode()), min_size=16, max_size=40))
@examples(100)
def test_quick_way_gives_the_same_or_gives_up(cells: list[bytes]) -> None:
    column = pa.array(cells, pa.binary())

    quick = read_json_lines(COLUMNS, column)

    slow = decode_each(COLUMNS, column, plain)
    assert quick is None or (tuple(quick), {}) == (slow.arrays, slow.bad)


def test_quick_way_is_taken_where_it_can_be() -> None:
    cells = [json.dumps({"name": "a", "age": n, "home": {"city": "x"}}).encode() for n in range(20)]

    arrays = read_json_lines(COLUMNS, pa.array(cells, pa.binary()))

    assert arrays is not None
    assert arrays[1].to_pylist() == list(range(20))
    assert arrays[2].to_pylist() == ["x"] * 20


@pytest.mark.parametrize("filler", [b"{}{}", b"{}\n{}", b"{} {}"])
def test_two_objects_in_one_value_are_bad_even_beside_an_empty_value(filler: bytes) -> None:
    cells = [b'{"age": 1}'] * 18 + [filler, b""]

    decoded = decoder(JSON)(pa.array(cells, pa.binary()))

    assert sorted(decoded.bad) == [18, 19]
    assert decoded.arrays[1].to_pylist() == [1] * 18 + [None, None]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (ColumnType.INT32, 2**31, "2147483648 is not a whole number of 32 bits"),
        (ColumnType.INT64, True, "True is not a whole number"),
        (ColumnType.INT64, 1.0, "1.0 is not a whole number"),
        (ColumnType.FLOAT64, 2**53 + 1, "loses digits"),
        (ColumnType.FLOAT64, "1", "'1' is not a number"),
        (ColumnType.STRING, 5, "5 is not text"),
        (ColumnType.STRING, "\ud800", "lone surrogate"),
        (ColumnType.BOOLEAN, 0, "0 is not true or false"),
        (ColumnType.BINARY, "!", "text is not base64"),
        (ColumnType.TIMESTAMP, "noon", "Invalid isoformat"),
        (ColumnType.TIMESTAMP, 10**30, "column c"),
        (ColumnType.DATE, "2026-13-01", "month must be in 1..12"),
    ],
)
def test_value_that_does_not_fit_its_column_is_bad(
    kind: ColumnType, value: object, reason: str
) -> None:
    codec = ColumnCodec(format=Format.JSON, columns=(Column(name="c", type=kind, path=("c",)),))

    decoded = decoder(codec)(pa.array([json.dumps({"c": value}).encode()], pa.binary()))

    assert reason in decoded.bad[0]
    assert decoded.arrays[0].to_pylist() == [None]


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (b"", "cannot be decoded"),
        (b"[1]", "list has no field 'c'"),
        (b'{"c": NaN}', "NaN is not JSON"),
        (b'{"c": 1e999}', "too large"),
        (b"\xff", "cannot be decoded"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_object_is_bad(cell: bytes, reason: str) -> None:
    column = Column(name="c", type=ColumnType.FLOAT64, path=("c",))
    codec = ColumnCodec(format=Format.JSON, columns=(column,))

    decoded = decoder(codec)(pa.array([cell, None], pa.binary()))

    assert list(decoded.bad) == [0]
    assert reason in decoded.bad[0]


def test_text_that_is_not_utf8_is_bad_and_the_rest_is_text() -> None:
    codec = ColumnCodec(
        format=Format.STRING, columns=(Column(name="c", type=ColumnType.STRING, path=()),)
    )

    decoded = decoder(codec)(pa.array([b"a", b"\xff", None, b""], pa.binary()))

    assert decoded.arrays[0].to_pylist() == ["a", None, None, ""]
    assert decoded.bad == {1: "not UTF-8: invalid start byte at byte 0"}


SCHEMA = {
    "type": "record",
    "name": "P",
    "fields": [{"name": "age", "type": "long"}, {"name": "raw", "type": ["null", "bytes"]}],
}
AVRO_COLUMNS = (
    Column(name="age", type=ColumnType.INT64, path=("age",)),
    Column(name="raw", type=ColumnType.BINARY, path=("raw",)),
)


def avro(**fields: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), fields)
    return out.getvalue()


def test_avro_is_read_with_the_schema_of_a_file() -> None:
    codec = ColumnCodec(format=Format.AVRO, columns=AVRO_COLUMNS, schema=json.dumps(SCHEMA))
    cells = [avro(age=7, raw=b"\0"), None, avro(age=1, raw=None)[:1], avro(age=1, raw=None) + b"x"]

    decoded = decoder(codec)(pa.array(cells, pa.binary()))

    assert decoded.arrays[0].to_pylist() == [7, None, None, None]
    assert decoded.arrays[1].to_pylist() == [b"\0", None, None, None]
    assert sorted(decoded.bad) == [2, 3]
    assert decoded.bad[3] == "1 bytes follow the value"


class _Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/schemas/ids/3"
        body = json.dumps({"schema": json.dumps(SCHEMA)} if found else {}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def registry() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_avro_is_read_with_the_schema_a_registry_has_for_each_record(registry: str) -> None:
    codec = ColumnCodec(format=Format.AVRO, columns=AVRO_COLUMNS, registry=registry)
    good = b"\0\0\0\0\x03" + avro(age=5, raw=None)
    cells = [good, b"\0\0\0\0\x04" + avro(age=5, raw=None), b"\x01\0\0\0\x03", b""]

    decoded = decoder(codec, registered_schema)(pa.array(cells, pa.binary()))

    assert decoded.arrays[0].to_pylist() == [5, None, None, None]
    assert decoded.bad[1] == "the registry has no schema 4"
    assert "does not begin with a schema id" in decoded.bad[2]
    assert sorted(decoded.bad) == [1, 2, 3]
