"""Avro values: with the schema of a file, or with the one a registry has for each record. Pure.

With a registry, a value begins with a zero byte and the id of its schema in four bytes, as
Confluent's serializers write it. The caller passes the function that fetches schemas, such as
`schema_registry`'s.
"""

import json
import struct
from collections.abc import Callable
from typing import Any, Final

import fastavro

from ledgerstone.pipeline.converting import Unfit
from ledgerstone.pipeline.definition import ColumnCodec
from ledgerstone.pipeline.errors import PipelineError

_PREFIX: Final = struct.Struct(">bI")

# Registry address and schema id to the schema in fastavro's form.
SchemaOf = Callable[[str, int], Any]


def avro_parser(codec: ColumnCodec, schema_of: SchemaOf | None) -> Callable[[bytes], object]:
    if codec.schema is not None:
        schema = fastavro.parse_schema(json.loads(codec.schema))
        return lambda cell: _read(cell, schema)
    assert codec.registry is not None, "Avro without schema and without registry"
    registry, ask = codec.registry, schema_of
    if ask is None:
        raise PipelineError(f"the schema registry at {registry} is not available here")

    def parse(cell: bytes) -> object:
        if len(cell) < _PREFIX.size or cell[0] != 0:
            raise Unfit(f"does not begin with a schema id but with 0x{cell[:5].hex()}")
        _, number = _PREFIX.unpack_from(cell)
        return _read(cell[_PREFIX.size :], ask(registry, number))

    return parse


class _Reader:
    """The part of a file that fastavro needs: never returns more bytes than there are."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        self._at += len(found)
        return found

    @property
    def left(self) -> int:
        return len(self._data) - self._at


def _read(cell: bytes, schema: Any) -> object:  # noqa: ANN401 - fastavro's own
    reader = _Reader(cell)
    try:
        content: object = fastavro.schemaless_reader(reader, schema, None)  # type: ignore[arg-type]
    except MemoryError:
        raise Unfit("announces more bytes than it has") from None
    if reader.left:
        raise Unfit(f"{reader.left} bytes follow the value")
    return content
