"""The types a column of a table can have, and what they are in Arrow and in databases. Pure."""

import re
from enum import Enum
from typing import Final

import pyarrow as pa

from ledgerstone.dataclasses import dataclass


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
    TIME = "time"  # of a day, kept as text HH:MM:SS.ffffff where there is no such type
    JSON = "json"  # anything, kept as JSON text with sorted names


MAX_PRECISION: Final = 38  # what 128 bits hold, in Arrow, in Delta and in Spark


@dataclass(frozen=True, slots=True)
class DecimalType:
    """`precision` digits, `scale` of them after the decimal point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 0 <= self.scale <= self.precision <= MAX_PRECISION or not self.precision:
            raise ValueError(
                f"{self.value}: 1 to {MAX_PRECISION} digits, at most that many after the point"
            )

    @property
    def value(self) -> str:
        return f"decimal({self.precision},{self.scale})"


AnyType = ColumnType | DecimalType

_ARROW: Final = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT32: pa.int32(),
    ColumnType.INT64: pa.int64(),
    ColumnType.FLOAT64: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.BINARY: pa.binary(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.DATE: pa.date32(),
    # Spark and Delta have no common type for a time of day.
    ColumnType.TIME: pa.string(),
    ColumnType.JSON: pa.string(),
}

# Strict tables accept only these; types that SQLite lacks are stored as readable text.
_SQLITE: Final = {
    ColumnType.STRING: "TEXT",
    ColumnType.INT32: "INTEGER",
    ColumnType.INT64: "INTEGER",
    ColumnType.FLOAT64: "REAL",
    ColumnType.BOOLEAN: "INTEGER",
    ColumnType.BINARY: "BLOB",
    ColumnType.TIMESTAMP: "TEXT",
    ColumnType.DATE: "TEXT",
    ColumnType.TIME: "TEXT",
    ColumnType.JSON: "TEXT",
}

_POSTGRES: Final = {
    ColumnType.STRING: "text",
    ColumnType.INT32: "integer",
    ColumnType.INT64: "bigint",
    ColumnType.FLOAT64: "double precision",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.BINARY: "bytea",
    ColumnType.TIMESTAMP: "timestamptz",
    ColumnType.DATE: "date",
    ColumnType.TIME: "time",
    # Not jsonb: that would change the text, and a checksum over it.
    ColumnType.JSON: "text",
}

_DUCKDB: Final = {
    ColumnType.STRING: "VARCHAR",
    ColumnType.INT32: "INTEGER",
    ColumnType.INT64: "BIGINT",
    ColumnType.FLOAT64: "DOUBLE",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.BINARY: "BLOB",
    ColumnType.TIMESTAMP: "TIMESTAMPTZ",
    ColumnType.DATE: "DATE",
    ColumnType.TIME: "TIME",
    ColumnType.JSON: "VARCHAR",
}

_DECIMAL: Final = re.compile(r"decimal\s*\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\)", re.ASCII)


def named_type(name: object) -> AnyType:
    """Raises ValueError for an unknown type name."""
    found = _DECIMAL.fullmatch(name) if isinstance(name, str) else None
    if found is not None:
        return DecimalType(int(found[1]), int(found[2] or 0))
    try:
        return ColumnType(name)
    except ValueError:
        known = ", ".join(each.value for each in ColumnType)
        raise ValueError(f"expected one of {known}, decimal(DIGITS,SCALE)") from None


def arrow_type(kind: AnyType) -> pa.DataType:
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[kind]


def sqlite_type(kind: AnyType) -> str:
    return "TEXT" if isinstance(kind, DecimalType) else _SQLITE[kind]


def postgres_type(kind: AnyType) -> str:
    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    return _POSTGRES[kind]


def duckdb_type(kind: AnyType) -> str:
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _DUCKDB[kind]
