"""A table of PostgreSQL as a source. Shell; reads in one repeatable-read transaction."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import sql

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources.shape import TableShape
from ledgerstone.pipeline.sources.table_diff import KeyValues, Row

_ROWS_AT_ONCE: Final = 5_000

Connection = psycopg.Connection[tuple[Any, ...]]


def table_name(name: str) -> sql.Identifier:
    """`schema.table`, or a table of the search path."""
    return sql.Identifier(*name.split(".", 1))


class PostgresSnapshot:
    def __init__(self, db: Connection, shape: TableShape) -> None:
        self._db = db
        self._shape = shape
        self._table = table_name(shape.table)
        self._key_types = self._types_of_keys()

    def _types_of_keys(self) -> list[str]:
        rows = self._db.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
            [self._table.as_string(self._db)],
        ).fetchall()
        types: dict[str, str] = dict(rows)
        missing = [name for name in self._shape.key_columns if name not in types]
        if missing:
            raise PipelineError(f"table {self._shape.table} has no column {missing[0]!r}")
        return [types[name] for name in self._shape.key_columns]

    def keys_and_versions(self) -> Iterator[tuple[KeyValues, object]]:
        assert self._shape.version_column is not None
        names = [*self._shape.key_columns, self._shape.version_column]
        query = sql.SQL("SELECT {} FROM {}").format(
            sql.SQL(", ").join(map(sql.Identifier, names)), self._table
        )
        for row in self._stream("versions", query):
            yield tuple(row[:-1]), row[-1]

    def all_rows(self) -> Iterator[Row]:
        with self._db.cursor("rows") as cursor:
            cursor.itersize = _ROWS_AT_ONCE
            cursor.execute(sql.SQL("SELECT * FROM {}").format(self._table))
            names = [column.name for column in cursor.description or ()]
            for row in cursor:
                yield dict(zip(names, row, strict=True))

    def rows_of(self, keys: Sequence[KeyValues]) -> Iterator[tuple[KeyValues, Row | None]]:
        """Keys may also be the texts that logical decoding gives: the server reads them either
        way, and says what they mean."""
        # In a query with parameters a percent sign stands for itself only when doubled.
        table = table_name(self._shape.table.replace("%", "%%"))
        columns = [name.replace("%", "%%") for name in self._shape.key_columns]
        count = len(columns)
        wanted = [sql.Identifier(f"k{at}") for at in range(count)]
        casts = [
            sql.SQL("{}::{} AS {}").format(name, sql.SQL(kind), name)
            for name, kind in zip(wanted, self._key_types, strict=True)
        ]
        pairs = [
            sql.SQL("t.{} = w.{}").format(sql.Identifier(column), name)
            for column, name in zip(columns, wanted, strict=True)
        ]
        query = sql.SQL(
            "SELECT {own}, t.ctid IS NOT NULL, t.* FROM (SELECT {casts} FROM unnest({lists}) "
            "AS u({names})) AS w LEFT JOIN {table} AS t ON {pairs}"
        ).format(
            own=sql.SQL(", ").join(sql.SQL("w.{}").format(name) for name in wanted),
            casts=sql.SQL(", ").join(casts),
            lists=sql.SQL(", ").join([sql.SQL("%s::text[]")] * count),
            names=sql.SQL(", ").join(wanted),
            table=table,
            pairs=sql.SQL(" AND ").join(pairs),
        )
        texts = [[self._text(key[at]) for key in keys] for at in range(count)]
        cursor = self._db.execute(query, texts)
        names = [column.name for column in (cursor.description or ())[count + 1 :]]
        for row in cursor:
            found = dict(zip(names, row[count + 1 :], strict=True)) if row[count] else None
            yield tuple(row[:count]), found

    def _text(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bytes):
            return "\\x" + value.hex()
        return str(value)

    def _stream(self, name: str, query: sql.Composed) -> Iterator[tuple[Any, ...]]:
        with self._db.cursor(name) as cursor:
            cursor.itersize = _ROWS_AT_ONCE
            cursor.execute(query)
            yield from cursor


@contextmanager
def postgres_snapshot(conninfo: str, shape: TableShape) -> Iterator[PostgresSnapshot]:
    try:
        with psycopg.connect(conninfo) as db:
            db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            db.read_only = True
            yield PostgresSnapshot(db, shape)
    except psycopg.Error as error:
        raise PipelineError(f"table {shape.table}: {error}") from error
