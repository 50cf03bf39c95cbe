"""The columns of an Avro schema: nested records are flattened. Pure.

A field `city` in a record `address` becomes the column `address_city`. What has no column type,
arrays, maps and unions of several types, becomes JSON text.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from ledgerstone.pipeline.column_types import AnyType, ColumnType, DecimalType
from ledgerstone.pipeline.definition import Column

_MAX_DEPTH: Final = 20
_PLAIN: Final = {
    "string": ColumnType.STRING,
    "enum": ColumnType.STRING,
    "int": ColumnType.INT32,
    "long": ColumnType.INT64,
    "float": ColumnType.FLOAT64,
    "double": ColumnType.FLOAT64,
    "boolean": ColumnType.BOOLEAN,
    "bytes": ColumnType.BINARY,
    "fixed": ColumnType.BINARY,
}
_LOGICAL: Final = {
    "timestamp-millis": ColumnType.TIMESTAMP,
    "timestamp-micros": ColumnType.TIMESTAMP,
    "local-timestamp-millis": ColumnType.TIMESTAMP,
    "local-timestamp-micros": ColumnType.TIMESTAMP,
    "date": ColumnType.DATE,
    "time-millis": ColumnType.TIME,
    "time-micros": ColumnType.TIME,
}


def columns_of_schema(text: str) -> tuple[Column, ...]:
    """Raises ValueError if this is not the schema of a record."""
    try:
        schema = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("the schema is not a record schema")
    return tuple(_fields(schema, ()))


def _fields(record: dict[str, Any], path: tuple[str, ...]) -> Iterator[Column]:
    if len(path) > _MAX_DEPTH:
        raise ValueError(f"{'.'.join(path[:3])}… is nested too deeply")
    for field in record.get("fields", ()):
        here = (*path, str(field["name"]))
        kind = _without_null(field["type"])
        if isinstance(kind, dict) and kind.get("type") == "record":
            yield from _fields(kind, here)
        else:
            yield Column(name="_".join(here), type=_type_of(kind), path=here)


def _without_null(kind: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(kind, list):
        rest = [each for each in kind if each != "null"]
        return rest[0] if len(rest) == 1 else rest
    return kind


def _type_of(kind: Any) -> AnyType:  # noqa: ANN401 - JSON
    if isinstance(kind, str):
        return _PLAIN.get(kind, ColumnType.JSON)
    if isinstance(kind, dict):
        if kind.get("logicalType") == "decimal" and kind.get("type") in ("bytes", "fixed"):
            return DecimalType(int(kind.get("precision", 0)), int(kind.get("scale", 0)))
        logical = _LOGICAL.get(str(kind.get("logicalType")))
        return logical or _PLAIN.get(str(kind.get("type")), ColumnType.JSON)
    return ColumnType.JSON
