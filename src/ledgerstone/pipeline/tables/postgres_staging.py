"""Tables in PostgreSQL that tasks copy their changes to, each attempt to its own. Shell.

They are unlogged: a crash of the server empties them, and the batch is repeated. They hold what was
in records, so the transaction that applies them drops them; those of attempts that did not count,
and of a run that died, are dropped when the next run begins, and by an erasure.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
import pyarrow as pa

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.column_types import ColumnType
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import DELETED, Layout
from ledgerstone.pipeline.tables import sql
from ledgerstone.pipeline.tables.postgres_copy import HEADER, TRAILER, copy_rows, staged_type
from ledgerstone.pipeline.tables.target import Staged, counted
from ledgerstone.pipeline.tables.unfit import holding_zero_character, named

_TEXT: Final = (ColumnType.STRING, ColumnType.JSON)


def encoded(text: str) -> bytes:
    """As bytes: a query made of names is no literal, which is all that psycopg's types allow."""
    return text.encode()


@contextmanager
def said_of(table: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise PipelineError(f"table {table}: {error}") from error


def connected(connection: str) -> "psycopg.Connection[Any]":
    try:
        return psycopg.connect(connection, autocommit=True)
    except psycopg.Error as error:
        # The message may be shown; a connection string holds a password.
        raise PipelineError(f"PostgreSQL cannot be reached: {error}") from error


def staged_columns(layout: Layout) -> dict[str, str]:
    names = [*layout.key_names, *layout.content_names]
    types = {name: staged_type(layout.types[name]) for name in names}
    return {**types, DELETED: "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresStage:
    """Picklable."""

    connection: str
    table: str  # as the definition names it
    schema: str
    prefix: str
    layout: Layout

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        """PostgreSQL's text holds every character but one."""
        reasons: dict[int, str] = {}
        for column in self.layout.keys + self.layout.values:
            if column.type in _TEXT:
                cells = changes.column(column.name)
                reasons |= named(column.name, *holding_zero_character(cells))
        return reasons

    def open(self) -> "CopySink":
        return CopySink(self)

    def quoted(self, name: str) -> str:
        return f"{sql.quoted(self.schema)}.{sql.quoted(name)}"


class CopySink:
    def __init__(self, stage: PostgresStage) -> None:
        self._stage = stage
        self._name = f"{stage.prefix}{uuid.uuid4().hex[:16]}"
        self._db: psycopg.Connection[Any] | None = None
        self._copy: Any = None
        self._upserts = self._deletes = 0

    def add(self, changes: pa.Table) -> None:
        if not changes.num_rows:
            return
        upserts, deletes = counted(changes)
        self._upserts += upserts
        self._deletes += deletes
        columns = staged_columns(self._stage.layout)
        with said_of(self._stage.table):
            if self._db is None:
                self._begin(columns)
            for piece in copy_rows(changes.select(list(columns))):
                self._copy.write(piece)

    def _begin(self, columns: dict[str, str]) -> None:
        self._db = connected(self._stage.connection)
        table = self._stage.quoted(self._name)
        said = ", ".join(f"{sql.quoted(name)} {kind}" for name, kind in columns.items())
        self._db.execute("BEGIN")
        self._db.execute(encoded(f"CREATE UNLOGGED TABLE {table} ({said})"))
        self._copying = self._db.cursor().copy(encoded(f"COPY {table} FROM STDIN (FORMAT BINARY)"))
        self._copy = self._copying.__enter__()
        self._copy.write(HEADER)

    def finish(self) -> Staged:
        if self._db is None:
            return Staged("", (), 0, 0)
        with said_of(self._stage.table):
            self._copy.write(TRAILER)
            self._copying.__exit__(None, None, None)
            # Else a merge of ten rows may be planned as one of a thousand, through the whole table.
            self._db.execute(encoded(f"ANALYZE {self._stage.quoted(self._name)}"))
            self._db.execute("COMMIT")
            self._db.close()
        return Staged(self._name, (), self._upserts, self._deletes)

    def abandon(self) -> None:
        """A transaction that is not committed leaves nothing."""
        if self._db is not None:
            self._db.close()


def staged_tables(db: "psycopg.Connection[Any]", prefix: str) -> list[str]:
    """All that are there, quoted."""
    found = db.execute(
        "SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n "
        "ON n.oid = c.relnamespace WHERE starts_with(c.relname, %s) AND c.relkind = 'r' "
        "ORDER BY 1",
        (prefix,),
    )
    return [row[0] for row in found]


def drop_staged_tables(db: "psycopg.Connection[Any]", prefix: str) -> None:
    for table in staged_tables(db, prefix):
        db.execute(encoded(f"DROP TABLE IF EXISTS {table}"))
