"""The columns of a read, and which of them a schema given by the user asks for. Pure.

Spark's data source API has no column pruning: the schema a user gives is the projection, and what
is not in it is never copied out of the batches.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError
from ledgerstone.spark.read_options import Rows

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_RECORD_FIELDS: Final[tuple[tuple[str, DataType], ...]] = (
    ("key", BinaryType()),
    ("value", BinaryType()),
    ("topic", StringType()),
    ("partition", IntegerType()),
    ("offset", LongType()),
    ("timestamp", TimestampType()),
    ("timestampType", IntegerType()),
    ("headers", ArrayType(_HEADER)),
)
_GAP_FIELDS: Final[tuple[tuple[str, DataType], ...]] = (
    ("topic", StringType()),
    ("partition", IntegerType()),
    ("startOffset", LongType()),
    ("endOffset", LongType()),
    ("reason", StringType()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Our names of the columns, in the order of `schema`, which has the user's names."""

    names: tuple[str, ...]
    schema: pa.Schema

    def batch(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def schema_of(rows: Rows, *, include_headers: bool) -> StructType:
    fields = [StructField(name, kind) for name, kind in _fields(rows)]
    if rows is Rows.RECORDS and not include_headers:
        fields = fields[:-1]
    return StructType(fields)


def projection(schema: StructType, rows: Rows) -> Projection:
    """Raises ConfigError for a column that is not ours, or is of another type."""
    known = {name.lower(): (name, kind) for name, kind in _fields(rows)}
    names = []
    for field in schema.fields:
        name, kind = known.get(field.name.lower(), ("", None))
        if kind is None:
            columns = ", ".join(name for name, _ in _fields(rows))
            raise ConfigError("schema", field.name, f"the columns are {columns}")
        if field.dataType != kind:
            expected = kind.simpleString()
            raise ConfigError(
                "schema", f"{field.name} {field.dataType.simpleString()}", f"it is {expected}"
            )
        names.append(name)
    return Projection(names=tuple(names), schema=to_arrow_schema(schema, timezone="UTC"))


def _fields(rows: Rows) -> tuple[tuple[str, DataType], ...]:
    return _RECORD_FIELDS if rows is Rows.RECORDS else _GAP_FIELDS
