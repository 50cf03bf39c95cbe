"""A table in PostgreSQL: tasks COPY, one MERGE with the positions applies. Shell.

The MERGE, the positions and the removal of what was staged are one transaction, so whatever dies,
the table and how far it has come agree. The driver only sends statements.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import time
from typing import Any, Final

import pyarrow as pa

from ledgerstone.pipeline.column_types import AnyType, ColumnType, arrow_type, postgres_type
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables import sql
from ledgerstone.pipeline.tables.evolution import as_noted, evolution, type_names
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.merge_text import MergeText
from ledgerstone.pipeline.tables.postgres_copy import staged_type
from ledgerstone.pipeline.tables.postgres_staging import (
    PostgresStage,
    connected,
    drop_staged_tables,
    encoded,
    said_of,
)
from ledgerstone.pipeline.tables.target import (
    Applied,
    BatchStage,
    Followed,
    Positions,
    Staged,
    TableTarget,
)

_ROWS_AT_ONCE: Final = 1 << 14
# Until the end of a transaction, unless the server has more: with its default of 4 MB a merge of
# two million rows went through temporary files, and took half as long again.
_MORE_MEMORY: Final = (
    "SELECT set_config('work_mem', '64MB', true) "
    "WHERE pg_size_bytes(current_setting('work_mem')) < pg_size_bytes('64MB')"
)
_LONG_WORDS: Final = {"timestamptz": "timestamp with time zone", "time": "time without time zone"}


class PostgresTable(TableTarget):
    """`name` may have a schema in front, as in `sales.customers`; without one the search path
    of the connection says where the table is."""

    def __init__(self, connection: str, name: str, topic: str, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout
        self._topic = topic
        self._name = name
        self._table = ".".join(map(sql.quoted, name.split(".", 1)))
        self._types = {each: postgres_type(kind) for each, kind in layout.types.items()}
        self._prefix = sql.staged_prefix(name)
        self._db = connected(connection)

    def prepare(self) -> None:
        with said_of(self._name):
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {sql.POSITIONS_TABLE} (table_name text NOT NULL, "
                "topic text NOT NULL, partition integer NOT NULL, next_offset bigint NOT NULL, "
                "PRIMARY KEY (table_name, topic, partition))"
            )
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {sql.TOPICS_TABLE} (table_name text PRIMARY KEY, "
                "topic text NOT NULL, topic_id text NOT NULL)"
            )
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {sql.COLUMNS_TABLE} (table_name text NOT NULL, "
                "column_name text NOT NULL, type text NOT NULL, "
                "PRIMARY KEY (table_name, column_name))"
            )
            self._create_if_missing()
            self._evolve()
        self.drop_staged()

    def _columns(self) -> dict[str, str]:
        """With their types, as PostgreSQL has them."""
        found = self._db.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (self._table,),
        )
        return dict(found.fetchall())

    def _evolve(self) -> None:
        noted = dict(
            self._db.execute(
                f"SELECT column_name, type FROM {sql.COLUMNS_TABLE} WHERE table_name = %s",
                (self._name,),
            ).fetchall()
        )
        columns = self._columns()
        words = {name: _LONG_WORDS.get(word, word) for name, word in self._types.items()}
        others = {name: word for name, word in columns.items() if word != words.get(name)}
        found = as_noted(columns, noted, self._layout, others)
        change = evolution(f"table {self._name}", found, self._layout)
        wanted = type_names(self._layout)
        if noted == wanted:
            return
        texts = [sql.add_column(self._table, name, self._types[name]) for name in change.added]
        for each in change.widened:
            texts.append(sql.widen_column(self._table, each.name, self._types[each.name]))
        with self._db.transaction(), self._db.cursor() as cursor:
            for text in texts:
                cursor.execute(encoded(text))
            cursor.executemany(
                f"INSERT INTO {sql.COLUMNS_TABLE} VALUES (%s, %s, %s) ON CONFLICT "
                "(table_name, column_name) DO UPDATE SET type = excluded.type",
                [(self._name, *each) for each in wanted.items()],
            )

    def _create_if_missing(self) -> None:
        """A dropped table starts over, whatever else is left of it."""
        is_there = self._db.execute("SELECT to_regclass(%s) IS NOT NULL", (self._table,)).fetchone()
        if is_there == (True,):
            return
        with self._db.transaction():
            for each in sql.NOTES:
                self._db.execute(f"DELETE FROM {each} WHERE table_name = %s", (self._name,))
            self._db.execute(encoded(sql.create_table(self._table, self._layout, self._types)))

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
        with said_of(self._name):
            self._db.execute(
                f"INSERT INTO {sql.TOPICS_TABLE} VALUES (%s, %s, %s) ON CONFLICT (table_name) "
                "DO UPDATE SET topic = excluded.topic, topic_id = excluded.topic_id",
                (self._name, *followed),
            )

    def stage(self, incoming: Incoming) -> PostgresStage:
        with said_of(self._name):
            found = self._db.execute(
                "SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid "
                "WHERE pg_class.oid = %s::regclass",
                (self._table,),
            ).fetchone()
        assert found is not None, "a table without a schema"
        return PostgresStage(
            connection=self._connection,
            table=self._name,
            schema=found[0],
            prefix=self._prefix,
            layout=self._layout,
        )

    def apply_staged(
        self,
        stage: BatchStage,
        staged: Sequence[Staged],
        positions: Mapping[int, int],
        *,
        forced: bool = False,
    ) -> Applied:
        assert isinstance(stage, PostgresStage), "another target's stage"
        tables = [stage.quoted(each.name) for each in staged if each.name]
        upserts = sum(each.upserts for each in staged)
        deletes = sum(each.deletes for each in staged)
        merge = MergeText(self._table, tables, self._layout, cast_to=_cast_to, has_unique_rows=True)
        with said_of(self._name), self._db.transaction():
            self._db.execute(_MORE_MEMORY)
            if not tables:
                pass
            elif self._layout.deletes is Deletes.HISTORY:
                self._db.execute(encoded(merge.close_versions()))
                self._db.execute(encoded(merge.insert_versions()))
            else:
                is_twice = self._asked(merge.has_a_key_twice()) == (True,)
                if is_twice:
                    upserts, deletes = self._asked(merge.count_kept())
                self._db.execute(encoded(merge.merge(forced=forced, one_per_key=is_twice)))
            with self._db.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO {sql.POSITIONS_TABLE} VALUES (%s, %s, %s, %s) ON CONFLICT "
                    "(table_name, topic, partition) "
                    "DO UPDATE SET next_offset = excluded.next_offset",
                    [(self._name, self._topic, each, at) for each, at in sorted(positions.items())],
                )
            for table in tables:
                self._db.execute(encoded(f"DROP TABLE {table}"))
        return Applied(upserts=upserts, deletes=deletes)

    def _asked(self, query: str) -> tuple[Any, ...]:
        found: tuple[Any, ...] | None = self._db.execute(encoded(query)).fetchone()
        assert found is not None, "an aggregate without a row"
        return found

    def drop_staged(self) -> None:
        with said_of(self._name):
            drop_staged_tables(self._db, self._prefix)

    def tidy(self) -> None:
        """PostgreSQL's autovacuum does."""

    def rows(self) -> Iterator[pa.Table]:
        types = self._layout.types
        with self._db.transaction(), self._db.cursor("ledgerstone_rows") as cursor:
            cursor.execute(encoded(f"SELECT {sql.names(types)} FROM {self._table}"))
            while found := cursor.fetchmany(_ROWS_AT_ONCE):
                arrays = [
                    _from_postgres(cells, kind)
                    for cells, kind in zip(zip(*found, strict=True), types.values(), strict=True)
                ]
                yield pa.Table.from_arrays(arrays, schema=self._layout.table_schema)

    def close(self) -> None:
        self._db.close()


def _cast_to(kind: AnyType) -> str | None:
    wanted = postgres_type(kind)
    return None if staged_type(kind) == wanted else wanted


def _from_postgres(cells: Sequence[Any], kind: AnyType) -> pa.Array:
    if kind is ColumnType.TIME:
        told: Sequence[time | None] = cells
        cells = [None if each is None else each.isoformat("microseconds") for each in told]
    return pa.array(cells, arrow_type(kind))
