"""A table in a SQLite file: the default, nothing to install. Shell.

Changes are staged in a temporary table; rows, deletes and positions are one transaction. The file
is in WAL mode, so that others read while we write. Deleted content is overwritten in the file
(`secure_delete`), for a delete that leaves the bytes in free pages is none.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.column_types import (
    AnyType,
    ColumnType,
    DecimalType,
    arrow_type,
    sqlite_type,
)
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import DELETED, DELETED_AT, ORIGIN_NAMES, TIMESTAMP, Layout
from ledgerstone.pipeline.tables import sql
from ledgerstone.pipeline.tables.history import versions_of
from ledgerstone.pipeline.tables.target import Applied, Followed, Positions, applied

_ROWS_AT_ONCE: Final = 1 << 14
_BUSY_TIMEOUT_S: Final = 60.0
_STAGED: Final = "temp.ledgerstone_staged"
_CLOSED: Final = "temp.ledgerstone_closed"


class SqliteTable:
    def __init__(self, path: str, name: str, topic: str, layout: Layout) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._layout = layout
        self._topic = topic
        self._name = name
        self._table = f"main.{sql.quoted(name)}"
        try:
            # Spark calls back in its own thread; the runner ensures that there is only one.
            self._db = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise PipelineError(f"{path} cannot be opened: {error}") from error

    def prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA secure_delete = ON")
        types = {name: sqlite_type(kind) for name, kind in self._layout.types.items()}
        self._db.execute(
            f"CREATE TABLE IF NOT EXISTS main.{sql.POSITIONS_TABLE} (table_name TEXT NOT NULL, "
            "topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL, "
            "PRIMARY KEY (table_name, topic, partition)) STRICT"
        )
        self._db.execute(
            f"CREATE TABLE IF NOT EXISTS main.{sql.TOPICS_TABLE} (table_name TEXT PRIMARY KEY, "
            "topic TEXT NOT NULL, topic_id TEXT NOT NULL) STRICT"
        )
        if not self._columns():
            self._create(types)
        found = self._columns()
        if found != list(types):
            raise PipelineError(
                f"table {self._name} in {self._path} has columns {', '.join(found)}, "
                f"and the definition says {', '.join(types)}"
            )

    def _create(self, types: Mapping[str, str]) -> None:
        """A dropped table starts over, whatever else is left of it."""
        with self._transaction():
            for each in (sql.POSITIONS_TABLE, sql.TOPICS_TABLE):
                self._db.execute(f"DELETE FROM main.{each} WHERE table_name = ?", (self._name,))
            self._db.execute(sql.create_table(self._table, self._layout, types, " STRICT"))

    def _columns(self) -> list[str]:
        return [row[1] for row in self._db.execute(f"PRAGMA main.table_info({self._quoted})")]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    @property
    def _quoted(self) -> str:
        return sql.quoted(self._name)

    def positions(self) -> Positions:
        if not self._db.execute(f"PRAGMA main.table_info({sql.POSITIONS_TABLE})").fetchall():
            return {}
        found = self._db.execute(
            f"SELECT partition, next_offset FROM main.{sql.POSITIONS_TABLE} "
            "WHERE table_name = ? AND topic = ? ORDER BY partition",
            (self._name, self._topic),
        )
        return dict(found.fetchall())

    def followed(self) -> Followed | None:
        found = self._db.execute(
            f"SELECT topic, topic_id FROM main.{sql.TOPICS_TABLE} WHERE table_name = ?",
            (self._name,),
        ).fetchone()
        return None if found is None else Followed(*found)

    def follow(self, followed: Followed) -> None:
        self._db.execute(
            f"INSERT OR REPLACE INTO main.{sql.TOPICS_TABLE} VALUES (?, ?, ?)",
            (self._name, *followed),
        )

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        return {}

    def apply(self, changes: pa.Table, positions: Mapping[int, int]) -> Applied:
        return self._write(changes, positions, forced=False)

    def repair(self, changes: pa.Table) -> Applied:
        return self._write(changes, {}, forced=True)

    def _write(self, changes: pa.Table, positions: Mapping[int, int], *, forced: bool) -> Applied:
        with self._transaction():
            if self._layout.deletes is Deletes.HISTORY:
                self._write_versions(changes)
            else:
                self._write_latest(changes, forced=forced)
            self._db.executemany(
                f"INSERT OR REPLACE INTO main.{sql.POSITIONS_TABLE} VALUES (?, ?, ?, ?)",
                [(self._name, self._topic, each, at) for each, at in sorted(positions.items())],
            )
        return applied(changes)

    def _write_latest(self, changes: pa.Table, *, forced: bool) -> None:
        layout = self._layout
        columns = [*layout.key_names, *layout.content_names]
        self._stage(_STAGED, changes.select([*columns, DELETED]))
        self._db.execute(self._delete(forced=forced))
        sets = [f"{sql.quoted(n)} = excluded.{sql.quoted(n)}" for n in layout.content_names]
        if layout.deletes is Deletes.SOFT:
            sets.append(f"{sql.quoted(DELETED_AT)} = NULL")
        guard = "" if forced else f" WHERE {sql.is_newer('excluded', self._quoted)}"
        self._db.execute(
            f"INSERT INTO {self._table} ({sql.names(columns)}) "
            f"SELECT {sql.names(columns)} FROM {_STAGED} WHERE NOT {sql.quoted(DELETED)} "
            f"ON CONFLICT ({sql.names(layout.key_names)}) DO UPDATE SET {', '.join(sets)}{guard}"
        )
        if layout.deletes is Deletes.SOFT:
            # A key without a row gets one: that it was deleted is known all the same.
            self._db.execute(
                f"INSERT INTO {self._table} ({sql.names([*columns, DELETED_AT])}) "
                f"SELECT {sql.names([*columns, TIMESTAMP])} FROM {_STAGED} "
                f"WHERE {sql.quoted(DELETED)} ON CONFLICT DO NOTHING"
            )
        self._db.execute(f"DROP TABLE {_STAGED}")

    def _delete(self, *, forced: bool) -> str:
        """Goes through the changes, not through the table: `CROSS JOIN` fixes that order, and
        `_rowid_` is a name that no column of a definition can have."""
        guard = "" if forced else f" AND {sql.is_newer()}"
        found = f"s.{sql.quoted(DELETED)} AND {sql.same(self._layout.key_names)}{guard}"
        if self._layout.deletes is Deletes.SOFT:
            sets = ", ".join(f"{sql.quoted(n)} = s.{sql.quoted(n)}" for n in ORIGIN_NAMES)
            ended = f"{sets}, {sql.quoted(DELETED_AT)} = s.{sql.quoted(TIMESTAMP)}"
            return f"UPDATE {self._table} AS t SET {ended} FROM {_STAGED} AS s WHERE {found}"
        rows = f"SELECT t._rowid_ FROM {_STAGED} AS s CROSS JOIN {self._table} AS t WHERE {found}"
        return f"DELETE FROM {self._table} WHERE _rowid_ IN ({rows})"

    def _write_versions(self, changes: pa.Table) -> None:
        versions = versions_of(changes, self._layout)
        self._stage(_CLOSED, versions.closed)
        self._db.execute(sql.close_versions(self._table, _CLOSED, self._layout))
        self._stage(_STAGED, versions.new)
        columns = sql.names(versions.new.column_names)
        self._db.execute(
            f"INSERT INTO {self._table} ({columns}) SELECT {columns} FROM {_STAGED} WHERE true "
            f"ON CONFLICT ({sql.names(self._layout.row_identity)}) DO NOTHING"
        )
        for each in (_STAGED, _CLOSED):
            self._db.execute(f"DROP TABLE {each}")

    def _stage(self, staged: str, table: pa.Table) -> None:
        self._db.execute(f"DROP TABLE IF EXISTS {staged}")
        self._db.execute(f"CREATE TABLE {staged} ({sql.names(table.column_names)})")
        marks = ", ".join("?" * table.num_columns)
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            piece = table.slice(start, _ROWS_AT_ONCE)
            cells = zip(*(to_sqlite(piece.column(n)) for n in piece.column_names), strict=True)
            self._db.executemany(f"INSERT INTO {staged} VALUES ({marks})", cells)

    def rows(self) -> Iterator[pa.Table]:
        types = self._layout.types
        cursor = self._db.execute(f"SELECT {sql.names(types)} FROM {self._table}")
        while found := cursor.fetchmany(_ROWS_AT_ONCE):
            arrays = [
                from_sqlite(list(cells), kind)
                for cells, kind in zip(zip(*found, strict=True), types.values(), strict=True)
            ]
            yield pa.Table.from_arrays(arrays, schema=self._layout.table_schema)

    def close(self) -> None:
        self._db.close()


def to_sqlite(column: pa.ChunkedArray) -> list[Any]:
    """Timestamps and dates as ISO 8601, which SQLite's own functions understand; decimals as text
    with all digits after the point, because a SQLite number would lose some."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        text = pc.strftime(column, format="%Y-%m-%dT%H:%M:%S")
        return [None if each is None else f"{each}Z" for each in text.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if each is None else f"{each:f}" for each in column.to_pylist()]
    if pa.types.is_date32(kind):
        column = column.cast(pa.string())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    cells: list[Any] = column.to_pylist()
    return cells


def from_sqlite(cells: list[Any], kind: AnyType) -> pa.Array:
    wanted = arrow_type(kind)
    if isinstance(kind, DecimalType):
        return pa.array([None if each is None else Decimal(each) for each in cells], wanted)
    if kind in (ColumnType.TIMESTAMP, ColumnType.DATE):
        return pa.array(cells, pa.string()).cast(wanted)
    if kind is ColumnType.BOOLEAN:
        return pa.array(cells, pa.int8()).cast(wanted)
    return pa.array(cells, wanted)
