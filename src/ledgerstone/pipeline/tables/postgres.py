"""A table in PostgreSQL: COPY into a temporary table, MERGE, and the positions. Shell.

All in one transaction, so whatever dies, the table and how far it has come agree. The temporary
table is dropped with the transaction.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import time
from typing import Any, Final

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.column_types import AnyType, ColumnType, arrow_type, postgres_type
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import DELETED, DELETED_AT, ORIGIN_NAMES, TIMESTAMP, Layout
from ledgerstone.pipeline.tables import sql
from ledgerstone.pipeline.tables.history import versions_of
from ledgerstone.pipeline.tables.target import Applied, Followed, Positions, applied

_ROWS_AT_ONCE: Final = 1 << 14
_STAGED: Final = "pg_temp.ledgerstone_staged"
_CLOSED: Final = "pg_temp.ledgerstone_closed"
_TIME: Final = postgres_type(ColumnType.TIME)
_TEXT: Final = (ColumnType.STRING, ColumnType.JSON)


class PostgresTable:
    """`name` may have a schema in front, as in `sales.customers`; without one the search path
    of the connection says where the table is."""

    def __init__(self, connection: str, name: str, topic: str, layout: Layout) -> None:
        self._layout = layout
        self._topic = topic
        self._name = name
        self._table = ".".join(map(sql.quoted, name.split(".", 1)))
        self._types = {each: postgres_type(kind) for each, kind in layout.types.items()}
        try:
            self._db = psycopg.connect(connection, autocommit=True)
        except psycopg.Error as error:
            # The message may be shown; a connection string holds a password.
            raise PipelineError(f"PostgreSQL cannot be reached: {error}") from error

    def prepare(self) -> None:
        with _said(self._name):
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {sql.POSITIONS_TABLE} (table_name text NOT NULL, "
                "topic text NOT NULL, partition integer NOT NULL, next_offset bigint NOT NULL, "
                "PRIMARY KEY (table_name, topic, partition))"
            )
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {sql.TOPICS_TABLE} (table_name text PRIMARY KEY, "
                "topic text NOT NULL, topic_id text NOT NULL)"
            )
            self._create_if_missing()
            found = self._db.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass "
                "AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                (self._table,),
            )
            columns = [row[0] for row in found]
        if columns != list(self._types):
            raise PipelineError(
                f"table {self._name} has columns {', '.join(columns)}, "
                f"and the definition says {', '.join(self._types)}"
            )

    def _create_if_missing(self) -> None:
        """A dropped table starts over, whatever else is left of it."""
        is_there = self._db.execute("SELECT to_regclass(%s) IS NOT NULL", (self._table,)).fetchone()
        if is_there == (True,):
            return
        with self._db.transaction():
            for each in (sql.POSITIONS_TABLE, sql.TOPICS_TABLE):
                self._db.execute(f"DELETE FROM {each} WHERE table_name = %s", (self._name,))
            self._db.execute(_sql(sql.create_table(self._table, self._layout, self._types)))

    def positions(self) -> Positions:
        is_there = self._db.execute("SELECT to_regclass(%s)", (sql.POSITIONS_TABLE,)).fetchone()
        if is_there == (None,):
            return {}
        found = self._db.execute(
            f"SELECT partition, next_offset FROM {sql.POSITIONS_TABLE} "
            "WHERE table_name = %s AND topic = %s ORDER BY partition",
            (self._name, self._topic),
        )
        return dict(found.fetchall())

    def followed(self) -> Followed | None:
        found = self._db.execute(
            f"SELECT topic, topic_id FROM {sql.TOPICS_TABLE} WHERE table_name = %s", (self._name,)
        ).fetchone()
        return None if found is None else Followed(*found)

    def follow(self, followed: Followed) -> None:
        with _said(self._name):
            self._db.execute(
                f"INSERT INTO {sql.TOPICS_TABLE} VALUES (%s, %s, %s) ON CONFLICT (table_name) "
                "DO UPDATE SET topic = excluded.topic, topic_id = excluded.topic_id",
                (self._name, *followed),
            )

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        """PostgreSQL's text holds every character but one."""
        reasons: dict[int, str] = {}
        for column in self._layout.keys + self._layout.values:
            if column.type in _TEXT:
                holds_zero = pc.match_substring(changes.column(column.name), "\0")
                for row in pc.indices_nonzero(pc.fill_null(holds_zero, False)).to_pylist():
                    reasons[row] = f"column {column.name} holds U+0000, which PostgreSQL refuses"
        return reasons

    def apply(self, changes: pa.Table, positions: Mapping[int, int]) -> Applied:
        return self._write(changes, positions, forced=False)

    def repair(self, changes: pa.Table) -> Applied:
        return self._write(changes, {}, forced=True)

    def _write(self, changes: pa.Table, positions: Mapping[int, int], *, forced: bool) -> Applied:
        with _said(self._name), self._db.transaction(), self._db.cursor() as cursor:
            if self._layout.deletes is Deletes.HISTORY:
                self._write_versions(cursor, changes)
            else:
                self._write_latest(cursor, changes, forced=forced)
            cursor.executemany(
                f"INSERT INTO {sql.POSITIONS_TABLE} VALUES (%s, %s, %s, %s) ON CONFLICT "
                "(table_name, topic, partition) DO UPDATE SET next_offset = excluded.next_offset",
                [(self._name, self._topic, each, at) for each, at in sorted(positions.items())],
            )
        return applied(changes)

    def _write_latest(
        self, cursor: "psycopg.Cursor[Any]", changes: pa.Table, *, forced: bool
    ) -> None:
        layout = self._layout
        columns = [*layout.key_names, *layout.content_names]
        staged = changes.select([*columns, DELETED])
        self._stage(cursor, _STAGED, staged, {**self._types, DELETED: "boolean"})
        cursor.execute(_sql(self._merge(columns, forced=forced)))

    def _merge(self, columns: list[str], *, forced: bool) -> str:
        layout = self._layout
        deleted = f"s.{sql.quoted(DELETED)}"
        sets = {name: f"s.{sql.quoted(name)}" for name in layout.content_names}
        removal, unknown = "DELETE", ""
        if layout.deletes is Deletes.SOFT:
            sets[DELETED_AT] = "NULL"
            ended = {name: sets[name] for name in ORIGIN_NAMES}
            removal = f"UPDATE SET {_sets({**ended, DELETED_AT: sets[TIMESTAMP]})}"
            # A key without a row gets one: that it was deleted is known all the same.
            unknown = (
                f" WHEN NOT MATCHED THEN INSERT ({sql.names([*columns, DELETED_AT])}) "
                f"VALUES ({sql.names([*columns, TIMESTAMP], 's')})"
            )
        stale = "" if forced else f"WHEN MATCHED AND NOT {sql.is_newer()} THEN DO NOTHING "
        return (
            f"MERGE INTO {self._table} AS t USING {_STAGED} AS s ON {sql.same(layout.key_names)} "
            f"{stale}WHEN MATCHED AND {deleted} THEN {removal} "
            f"WHEN MATCHED THEN UPDATE SET {_sets(sets)} "
            f"WHEN NOT MATCHED AND NOT {deleted} THEN "
            f"INSERT ({sql.names(columns)}) VALUES ({sql.names(columns, 's')}){unknown}"
        )

    def _write_versions(self, cursor: "psycopg.Cursor[Any]", changes: pa.Table) -> None:
        versions = versions_of(changes, self._layout)
        self._stage(cursor, _CLOSED, versions.closed, self._types)
        cursor.execute(_sql(sql.close_versions(self._table, _CLOSED, self._layout)))
        self._stage(cursor, _STAGED, versions.new, self._types)
        columns = sql.names(versions.new.column_names)
        cursor.execute(
            _sql(
                f"INSERT INTO {self._table} ({columns}) SELECT {columns} FROM {_STAGED} "
                f"ON CONFLICT ({sql.names(self._layout.row_identity)}) DO NOTHING"
            )
        )

    def _stage(
        self,
        cursor: "psycopg.Cursor[Any]",
        staged: str,
        table: pa.Table,
        types: Mapping[str, str],
    ) -> None:
        columns = table.column_names
        kinds = [types[name] for name in columns]
        said = ", ".join(f"{sql.quoted(n)} {k}" for n, k in zip(columns, kinds, strict=True))
        plain = staged.removeprefix("pg_temp.")
        cursor.execute(_sql(f"CREATE TEMPORARY TABLE {plain} ({said}) ON COMMIT DROP"))
        with cursor.copy(_sql(f"COPY {staged} FROM STDIN (FORMAT BINARY)")) as copy:
            # psycopg knows types by their names alone, without precision and scale.
            copy.set_types([each.partition("(")[0] for each in kinds])
            for start in range(0, table.num_rows, _ROWS_AT_ONCE):
                piece = table.slice(start, _ROWS_AT_ONCE)
                cells = map(_to_postgres, piece.columns, kinds)
                for row in zip(*cells, strict=True):
                    copy.write_row(row)
        # Else a merge of ten rows may be planned as one of a thousand, through the whole table.
        cursor.execute(_sql(f"ANALYZE {staged}"))

    def rows(self) -> Iterator[pa.Table]:
        types = self._layout.types
        with self._db.transaction(), self._db.cursor("ledgerstone_rows") as cursor:
            cursor.execute(_sql(f"SELECT {sql.names(types)} FROM {self._table}"))
            while found := cursor.fetchmany(_ROWS_AT_ONCE):
                arrays = [
                    _from_postgres(cells, kind)
                    for cells, kind in zip(zip(*found, strict=True), types.values(), strict=True)
                ]
                yield pa.Table.from_arrays(arrays, schema=self._layout.table_schema)

    def close(self) -> None:
        self._db.close()


def _to_postgres(column: pa.ChunkedArray, kind: str) -> list[Any]:
    cells: list[Any] = column.to_pylist()
    if kind == _TIME:
        return [None if each is None else time.fromisoformat(each) for each in cells]
    return cells


def _from_postgres(cells: Sequence[Any], kind: AnyType) -> pa.Array:
    if kind is ColumnType.TIME:
        cells = [None if each is None else each.isoformat("microseconds") for each in cells]
    return pa.array(cells, arrow_type(kind))


def _sets(values: Mapping[str, str]) -> str:
    return ", ".join(f"{sql.quoted(name)} = {value}" for name, value in values.items())


def _sql(text: str) -> bytes:
    """As bytes: a query made of names is no literal, which is all that psycopg's types allow."""
    return text.encode()


@contextmanager
def _said(table: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise PipelineError(f"table {table}: {error}") from error
