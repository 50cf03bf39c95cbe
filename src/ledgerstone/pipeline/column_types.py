"""The types a column of a table can have, and what they are in Arrow and in databases. Pure."""

from enum import Enum
from typing import Final

import pyarrow as pa


class ColumnType(Enum):
    """Named as a definition names them."""

    STRING = "string"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    BINARY = "binary"
    TIMESTAMP = "timestamp"
    DATE = "date"
    JSON = "json"  # anything, kept as JSON text with sorted names


ARROW: Final = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT32: pa.int32(),
    ColumnType.INT64: pa.int64(),
    ColumnType.FLOAT64: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.BINARY: pa.binary(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.DATE: pa.date32(),
    ColumnType.JSON: pa.string(),
}

# Strict tables take these and no others; what SQLite has no type for is readable text.
SQLITE: Final = {
    ColumnType.STRING: "TEXT",
    ColumnType.INT32: "INTEGER",
    ColumnType.INT64: "INTEGER",
    ColumnType.FLOAT64: "REAL",
    ColumnType.BOOLEAN: "INTEGER",
    ColumnType.BINARY: "BLOB",
    ColumnType.TIMESTAMP: "TEXT",
    ColumnType.DATE: "TEXT",
    ColumnType.JSON: "TEXT",
}

POSTGRES: Final = {
    ColumnType.STRING: "text",
    ColumnType.INT32: "integer",
    ColumnType.INT64: "bigint",
    ColumnType.FLOAT64: "double precision",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.BINARY: "bytea",
    ColumnType.TIMESTAMP: "timestamptz",
    ColumnType.DATE: "date",
    # Not jsonb: that would change the text, and a checksum over it.
    ColumnType.JSON: "text",
}
