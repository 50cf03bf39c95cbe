"""Columns of a table as SQLAlchemy has them, per dialect; cells to and from Arrow. Pure.

SQLite and PostgreSQL take what Arrow has. Others want to know how long a key may be before they put
an index on it, and compare text as they like: a key that ends in a space is another key, so MySQL
and MariaDB are told to compare bytes, without padding.
"""

from collections.abc import Callable, Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.sql.elements import quoted_name
from sqlalchemy.types import TypeEngine

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.column_types import AnyType, ColumnType, DecimalType, arrow_type
from ledgerstone.pipeline.layout import DELETED, OFFSET, PARTITION, Layout
from ledgerstone.pipeline.tables.unfit import holding_zero_character, named

MYSQL: Final = ("mysql", "mariadb")
_UNBOUNDED_KEYS: Final = ("sqlite", "postgresql")
# Of InnoDB, for all columns of a key; offset and partition may be among them.
_INDEX_BYTES: Final = 3072 - 12
# A number or a time, at most.
_SMALL_KEY_BYTES: Final = 64
# What every other database is sure to put an index on.
_KEY_CHARACTERS: Final = 255
_TEXT: Final = (ColumnType.STRING, ColumnType.JSON)
_TIME_CHARACTERS: Final = len("00:00:00.000000")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlShape:
    """What columns become in one dialect. Picklable."""

    dialect: str
    collation: str | None  # of text that has to be compared byte by byte
    layout: Layout

    @property
    def key_length(self) -> int | None:
        """Characters of a text key, and a quarter of the bytes of a binary one."""
        if self.dialect in _UNBOUNDED_KEYS:
            return None
        if self.dialect not in MYSQL:
            return _KEY_CHARACTERS
        long = sum(each.type in (*_TEXT, ColumnType.BINARY) for each in self.layout.keys)
        small = len(self.layout.keys) - long
        return (_INDEX_BYTES - small * _SMALL_KEY_BYTES) // max(long, 1) // 4

    def text(self, length: int) -> TypeEngine[Any]:
        return String(length, collation=self.collation)

    def type_of(self, name: str) -> TypeEngine[Any]:
        kind = self.layout.types[name]
        is_key = name in self.layout.key_names
        if isinstance(kind, DecimalType):
            # SQLite's numbers would lose digits.
            is_text = self.dialect == "sqlite"
            return Text() if is_text else Numeric(kind.precision, kind.scale)
        if kind in _TEXT:
            if is_key and self.key_length is not None:
                return self.text(self.key_length)
            return mysql.LONGTEXT(charset="utf8mb4") if self.dialect in MYSQL else Text()
        if kind is ColumnType.BINARY and self.dialect in MYSQL:
            is_bounded = is_key and self.key_length is not None
            return mysql.VARBINARY((self.key_length or 0) * 4) if is_bounded else mysql.LONGBLOB()
        if kind is ColumnType.TIMESTAMP:
            if self.dialect in MYSQL:
                return mysql.DATETIME(fsp=6)
            return DateTime(timezone=self.dialect == "postgresql")
        return _TYPES[kind]()

    def table(self, name: str, schema: str | None) -> Table:
        required = (*self.layout.key_names, PARTITION, OFFSET)
        identity = self.layout.row_identity
        columns = [
            Column(
                quoted_name(each, quote=True),
                self.type_of(each),
                primary_key=each in identity,
                autoincrement=False,
                nullable=each not in required,
            )
            for each in self.layout.types
        ]
        return Table(
            quoted_name(name, quote=True),
            MetaData(),
            *columns,
            schema=_quoted_schema(schema),
            mysql_engine="InnoDB",
            mariadb_engine="InnoDB",
        )

    def staging_table(self, name: str, schema: str | None) -> Table:
        names = [*self.layout.key_names, *self.layout.content_names]
        columns: list[Column[Any]] = [
            Column(quoted_name(each, quote=True), self.type_of(each)) for each in names
        ]
        columns.append(Column(DELETED, Boolean, nullable=False))
        return Table(
            quoted_name(name, quote=True),
            MetaData(),
            *columns,
            schema=_quoted_schema(schema),
            mysql_engine="InnoDB",
            mariadb_engine="InnoDB",
        )

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        reasons: dict[int, str] = {}
        for column in self.layout.keys + self.layout.values:
            cells = changes.column(column.name)
            if column.type is ColumnType.FLOAT64 and self.dialect != "postgresql":
                said = f"is not a finite number, which {self.dialect} cannot hold"
                is_unfit = pc.invert(pc.is_finite(cells))
                reasons |= named(column.name, said, is_unfit)
            if column.type in _TEXT and self.dialect == "postgresql":
                reasons |= named(column.name, *holding_zero_character(cells))
        for column in self.layout.keys if self.key_length is not None else ():
            cells, most = changes.column(column.name), self.key_length or 0
            if column.type in _TEXT:
                is_long = pc.greater(pc.utf8_length(cells), most)
                said = f"is longer than {most} characters, which {self.dialect} allows a key"
                reasons |= named(column.name, said, is_long)
            elif column.type is ColumnType.BINARY:
                is_long = pc.greater(pc.binary_length(cells), most * 4)
                said = f"is longer than {most * 4} bytes, which {self.dialect} allows a key"
                reasons |= named(column.name, said, is_long)
        return reasons

    def cells(self, column: pa.ChunkedArray, kind: AnyType) -> list[Any]:
        found: list[Any] = column.to_pylist()
        if isinstance(kind, DecimalType) and self.dialect == "sqlite":
            return [None if each is None else f"{each:f}" for each in found]
        if kind is ColumnType.TIMESTAMP and self.dialect != "postgresql":
            return [None if each is None else each.replace(tzinfo=None) for each in found]
        return found

    def array(self, cells: Sequence[Any], kind: AnyType) -> pa.Array:
        if isinstance(kind, DecimalType):
            cells = [None if each is None else Decimal(each) for each in cells]
        elif kind is ColumnType.TIMESTAMP:
            cells = [each and each.replace(tzinfo=each.tzinfo or UTC) for each in cells]
        return pa.array(cells, arrow_type(kind))


_TYPES: Final[dict[ColumnType, Callable[[], TypeEngine[Any]]]] = {
    ColumnType.INT32: Integer,
    ColumnType.INT64: BigInteger,
    ColumnType.FLOAT64: Double,
    ColumnType.BOOLEAN: Boolean,
    ColumnType.BINARY: LargeBinary,
    ColumnType.DATE: Date,
    ColumnType.TIME: lambda: String(_TIME_CHARACTERS),
}


def _quoted_schema(schema: str | None) -> quoted_name | None:
    return None if schema is None else quoted_name(schema, quote=True)
