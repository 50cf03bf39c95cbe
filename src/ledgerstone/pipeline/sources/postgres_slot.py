"""Logical decoding of PostgreSQL: which rows changed since the last run. Shell.

A run reads the slot without advancing it, writes the changes to the topic, and only then advances
the slot: a run that dies in between is repeated. The first run creates the slot and the
publication, and `drop` drops them; an unused slot keeps the server from recycling its WAL.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources.pgoutput import ChangedKeys
from ledgerstone.pipeline.sources.postgres_table import table_name
from ledgerstone.pipeline.sources.shape import TableShape

_MESSAGES_AT_ONCE: Final = 50_000


class Peeked(NamedTuple):
    changed: ChangedKeys
    up_to_lsn: str | None  # None: there is nothing new


class Slot:
    def __init__(self, conninfo: str, name: str, shape: TableShape) -> None:
        self._conninfo = conninfo
        self._name = name
        self._shape = shape

    @contextmanager
    def _connect(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as db:
                yield db
        except psycopg.Error as error:
            raise PipelineError(f"slot {self._name}: {error}") from error

    def make(self) -> bool:
        """Whether the slot is new: then everything has to be compared once."""
        with self._connect() as db:
            level = db.execute("SHOW wal_level").fetchone()
            if level != ("logical",):
                raise PipelineError(
                    f"wal_level is {level and level[0]}, logical decoding needs wal_level=logical; "
                    "leave `slot` out to compare the whole table instead"
                )
            if _exists(db, "pg_publication", "pubname", self._name):
                self._check_publication(db)
            else:
                db.execute(
                    sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(
                        sql.Identifier(self._name), table_name(self._shape.table)
                    )
                )
            if _exists(db, "pg_replication_slots", "slot_name", self._name):
                return False
            db.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self._name])
            return True

    def _check_publication(self, db: psycopg.Connection[tuple[Any, ...]]) -> None:
        """One for another table would never tell of a change."""
        found = db.execute(
            "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND "
            "(quote_ident(schemaname) || '.' || quote_ident(tablename))::regclass = %s::regclass",
            [self._name, table_name(self._shape.table).as_string(db)],
        ).fetchone()
        if found is None:
            raise PipelineError(
                f"publication {self._name} is not for table {self._shape.table}: give `slot` "
                "another name, or drop the slot and the publication"
            )

    def peek(self) -> Peeked:
        """The changes, up to some number of messages; always whole transactions."""
        changed = ChangedKeys(self._shape.table, self._shape.key_columns)
        last = None
        with self._connect() as db:
            rows = db.execute(
                "SELECT lsn::text, data FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, "
                "'proto_version', '1', 'publication_names', %s)",
                [self._name, _MESSAGES_AT_ONCE, self._publication_list()],
            )
            for lsn, data in rows:
                changed.read(bytes(data))
                last = lsn
        return Peeked(changed, last)

    def _publication_list(self) -> str:
        """The option is a list of identifiers, so a name is quoted as one."""
        return '"' + self._name.replace('"', '""') + '"'

    def advance(self, lsn: str) -> None:
        with self._connect() as db:
            db.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [self._name, lsn])

    def drop(self) -> None:
        with self._connect() as db:
            if _exists(db, "pg_replication_slots", "slot_name", self._name):
                db.execute("SELECT pg_drop_replication_slot(%s)", [self._name])
            db.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(self._name)))


def _exists(db: psycopg.Connection[tuple[Any, ...]], view: str, column: str, name: str) -> bool:
    query = sql.SQL("SELECT 1 FROM {} WHERE {} = %s").format(
        sql.Identifier(view), sql.Identifier(column)
    )
    return db.execute(query, [name]).fetchone() is not None
