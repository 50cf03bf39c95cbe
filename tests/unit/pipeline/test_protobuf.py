"""Protobuf: descriptors and a message that protoc wrote, a registry's layout, hostile bytes."""

import base64
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerstone.pipeline.codecs import Decoded, decoder
from ledgerstone.pipeline.column_types import ColumnType, named_type
from ledgerstone.pipeline.definition import Column, ColumnCodec, Format
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.pipeline.explaining import explain
from ledgerstone.pipeline.protobuf_schema import columns_of_message, message_of_set
from ledgerstone.pipeline.schema_registry import registered_schema

GOLDEN = Path(__file__).parents[2] / "golden/protobuf"
DESCRIPTORS = (GOLDEN / "people.desc").read_bytes()
FULL = (GOLDEN / "full.bin").read_bytes()


def codec_of(message: str = "crm.Person") -> ColumnCodec:
    columns = columns_of_message(message_of_set(DESCRIPTORS, message))
    return ColumnCodec(
        format=Format.PROTOBUF, columns=columns, descriptors=DESCRIPTORS, message=message
    )


def decoded(codec: ColumnCodec, *cells: bytes | None) -> Decoded:
    return decoder(codec, registered_schema)(pa.array(cells, pa.binary()))


def rows_of(codec: ColumnCodec, found: Decoded) -> list[dict[str, Any]]:
    names = [column.name for column in codec.columns]
    cells = zip(*(array.to_pylist() for array in found.arrays), strict=True)
    return [dict(zip(names, row, strict=True)) for row in cells]


def test_message_that_protoc_wrote_becomes_columns_without_a_loss() -> None:
    codec = codec_of()

    found = decoded(codec, FULL, None, b"")

    assert found.bad == {}
    full, missing, empty = rows_of(codec, found)
    assert full == {
        "name": "Ann",
        "number": Decimal(2**64 - 1),
        "score": -5,
        "visits": 2**32 - 1,
        "weight": 0.5,
        "active": True,
        "photo": b"\0\xff",
        "level": "GOLD",
        "address_city": "Oslo",
        "address_floor": 3,
        "born": datetime(1969, 12, 31, 23, 59, 59, 250000, UTC),
        "nickname": "",
        "tags": '["a", "b"]',
        "homes": '{"x": {"city": "Bergen", "floor": null}}',
        "friend": full["friend"],
        "note": None,
        "pet_name": "Rex",
    }
    assert json.loads(full["friend"])["name"] == "Bob"
    assert set(missing.values()) == {None}
    # A field without presence has a default; one with it, or in an absent message, has none.
    assert (empty["name"], empty["visits"], empty["level"]) == ("", 0, "LEVEL_UNKNOWN")
    absent = ("address_city", "address_floor", "born", "nickname", "note", "friend", "pet_name")
    assert {name: empty[name] for name in absent} == dict.fromkeys(absent)


def test_fields_that_the_schema_lacks_are_left_out_and_unknown_enums_are_numbers() -> None:
    codec = codec_of()
    later = message_of_set(DESCRIPTORS, "crm.Later")(name="Ann", added="x").SerializeToString()

    found = rows_of(codec, decoded(codec, later, b"\x40\x07"))

    assert found[0]["name"] == "Ann"
    assert found[1]["level"] == "7"


def test_bytes_that_are_no_message_are_bad_and_the_others_are_read() -> None:
    codec = codec_of()

    found = decoded(codec, FULL[:-1], FULL, b"\x0a\x02\xff\xfe")

    assert sorted(found.bad) == [0, 2]
    assert found.bad[0].startswith("is not a crm.Person")
    assert found.arrays[0].to_pylist() == [None, "Ann", None]


@given(st.binary(max_size=40))
@settings(deadline=None)
def test_any_bytes_are_read_or_refused(cell: bytes) -> None:
    codec = codec_of()

    found = decoded(codec, cell, b"\0\0\0\0\x01" + cell)

    assert all(found.bad.values())


class _Registry(BaseHTTPRequestHandler):
    """As Confluent's: the file of schema 1 imports one that is another subject. Schema 3 is the
    same file, registered by a serializer: its text has entries of maps as messages."""

    def do_GET(self) -> None:
        files = {file.name: file for file in FileDescriptorSet.FromString(DESCRIPTORS).file}
        person, common = files["people.proto"], files["google/protobuf/wrappers.proto"]
        common.name = "common/wrappers.proto"
        person.dependency[:] = ["google/protobuf/timestamp.proto", "common/wrappers.proto"]
        reference = {"name": "common/wrappers.proto", "subject": "a/b", "version": 2}
        file = {
            "schema": base64.b64encode(person.SerializeToString()).decode(),
            "references": [reference],
        }
        content = {
            "/schemas/ids/1": {"schemaType": "PROTOBUF", "schema": "syntax = …"},
            "/schemas/ids/3": {"schemaType": "PROTOBUF", "schema": "… option map_entry = true; …"},
            "/schemas/ids/1?format=serialized": file,
            "/schemas/ids/3?format=serialized": file,
            "/subjects/a%2Fb/versions/2?format=serialized": {
                "schema": base64.b64encode(common.SerializeToString()).decode()
            },
            "/schemas/ids/2": {"schema": '"string"'},
        }.get(self.path)
        body = json.dumps(content or {}).encode()
        self.send_response(404 if content is None else 200)
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


def test_registry_has_the_schema_and_the_record_says_which_message(registry: str) -> None:
    columns = (
        Column(name="name", type=ColumnType.STRING, path=("name",)),
        Column(name="number", type=named_type("decimal(20,0)"), path=("number",)),
    )
    codec = ColumnCodec(format=Format.PROTOBUF, columns=columns, registry=registry)
    pet = b"\x0a\x03Rex"
    prefix = b"\0\0\0\0\x01"

    found = decoded(
        codec,
        prefix + b"\x02\x02" + FULL,  # one number: the second message
        prefix + b"\x04\x02\x00" + pet,  # two: the first message inside of it
        prefix + b"\x00" + b"\x0a\x04Oslo",  # a zero: the first message, which has no name
        prefix + b"\x02\x12" + FULL,
        prefix + b"\x80",
        b"\0\0\0\0\x02\0",
        b"\0\0\0\0\x09\0",
        b"\x01",
    )

    assert found.arrays[0].to_pylist()[:3] == ["Ann", "Rex", None]
    assert found.arrays[1].to_pylist()[:2] == [Decimal(2**64 - 1), None]
    assert {row: why[:30] for row, why in found.bad.items()} == {
        3: "the schema has no message [9]",
        4: "ends within the numbers of its"[:30],
        5: "schema 2 of the registry is no"[:30],
        6: "the registry has no schema 9",
        7: "does not begin with a schema i"[:30],
    }


def test_messages_behind_a_map_are_counted_as_the_text_of_the_registry_has_them(
    registry: str,
) -> None:
    columns = (Column(name="name", type=ColumnType.STRING, path=("name",)),)
    codec = ColumnCodec(format=Format.PROTOBUF, columns=columns, registry=registry)
    pet = b"\x0a\x03Rex"

    by_text = decoded(codec, b"\0\0\0\0\x01" + b"\x04\x02\x00" + pet)
    by_descriptors = decoded(codec, b"\0\0\0\0\x03" + b"\x04\x02\x02" + pet)

    # `Person` has the entries of `homes` in front of `Pet`.
    assert by_text.arrays[0].to_pylist() == by_descriptors.arrays[0].to_pylist() == ["Rex"]


def definition(value: dict[str, Any], directory: Path = GOLDEN) -> Any:
    content = {
        "name": "people",
        "source": {"topic": "people"},
        "key": {"format": "protobuf", "schema": "people.desc", "message": "crm.Address"},
        "value": {"format": "protobuf", **value},
        "table": {"type": "sqlite", "path": "people.db"},
    }
    return define(content, directory=directory)


def test_definition_takes_columns_from_the_message() -> None:
    value = {
        "schema": "people.desc",
        "message": "crm.Person",
        "columns": {"loud": {"type": "string", "expression": "upper(name)"}},
    }

    pipeline = definition(value)

    assert [each.name for each in pipeline.key.columns] == ["city", "floor"]
    assert [each.name for each in pipeline.stored_values][-2:] == ["pet_name", "loud"]
    assert "protobuf crm.Person by the schema file" in "\n".join(explain(pipeline))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"schema": "people.desc"}, "^value.message: is missing"),
        ({"schema": "people.desc", "message": "crm.Nope"}, "there are crm.Address, crm.Person"),
        ({"schema": "people.proto", "message": "crm.Person"}, "^value.schema: .*protoc --include"),
        ({"schema": "no.desc", "message": "crm.Person"}, "^value.schema: .*No such file"),
        ({"message": "crm.Person"}, "^value.schema: give either schema"),
        ({"registry": "http://r", "message": "x"}, "^value.message: 'x': each record names"),
        ({"registry": "http://r"}, "^value.columns: expected 1 to 500"),
    ],
)
def test_definition_is_refused_with_the_key_to_blame(value: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        definition(value)
