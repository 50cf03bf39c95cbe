"""Tables that tasks insert their changes into, each attempt into its own, by SQLAlchemy. Shell.

They hold what was in records. The driver drops them when they are applied; those of attempts that
did not count, and of a run that died, are dropped when the next run begins, and by an erasure.
"""

import uuid
from typing import Final

import pyarrow as pa
from sqlalchemy import Connection, Engine, MetaData, Table, insert, inspect

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.layout import DELETED
from ledgerstone.pipeline.tables.sql import staged_prefix
from ledgerstone.pipeline.tables.sql_alter import analyze
from ledgerstone.pipeline.tables.sql_columns import SqlShape
from ledgerstone.pipeline.tables.sql_engine import connected, engine_of
from ledgerstone.pipeline.tables.target import Staged, counted

# One transaction each: SQLite lets nobody else write meanwhile.
_ROWS_AT_ONCE: Final = 1 << 13


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStage:
    """Picklable."""

    connection: str
    table: str  # as the definition names it
    schema: str | None
    prefix: str
    shape: SqlShape

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        return self.shape.unfit(changes)

    def open(self) -> "InsertSink":
        return InsertSink(self)

    def staged(self, name: str) -> Table:
        return self.shape.staging_table(name, self.schema)


class InsertSink:
    def __init__(self, stage: SqlStage) -> None:
        self._stage = stage
        self._name = f"{stage.prefix}{uuid.uuid4().hex[:16]}"
        self._table = stage.staged(self._name)
        self._engine: Engine | None = None
        self._upserts = self._deletes = 0

    def add(self, changes: pa.Table) -> None:
        if not changes.num_rows:
            return
        upserts, deletes = counted(changes)
        self._upserts += upserts
        self._deletes += deletes
        if self._engine is None:
            self._engine = engine_of(self._stage.connection)
            with connected(self._engine, self._stage.table) as db:
                self._table.create(db)
        for start in range(0, changes.num_rows, _ROWS_AT_ONCE):
            with connected(self._engine, self._stage.table) as db:
                self._insert(db, changes.slice(start, _ROWS_AT_ONCE))

    def _insert(self, db: Connection, changes: pa.Table) -> None:
        shape = self._stage.shape
        types = shape.layout.types
        names = [column.name for column in self._table.columns]
        cells = [
            changes.column(name).to_pylist()
            if name == DELETED
            else shape.cells(changes.column(name), types[name])
            for name in names
        ]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
        db.execute(insert(self._table), rows)

    def finish(self) -> Staged:
        if self._engine is None:
            return Staged("", (), 0, 0)
        # Else a join with ten changes may be planned as one with a thousand.
        with connected(self._engine, self._stage.table) as db:
            analyze(db, self._table)
        self.abandon()
        return Staged(self._name, (), self._upserts, self._deletes)

    def abandon(self) -> None:
        if self._engine is not None:
            self._engine.dispose()


def staged_names(db: Connection, table: str, schema: str | None) -> list[str]:
    prefix = staged_prefix(table)
    return sorted(name for name in inspect(db).get_table_names(schema) if name.startswith(prefix))


def drop_staged_tables(db: Connection, table: str, schema: str | None) -> None:
    for name in staged_names(db, table, schema):
        Table(name, MetaData(), schema=schema).drop(db)
