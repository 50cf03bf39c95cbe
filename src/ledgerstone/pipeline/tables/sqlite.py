"""A table in a SQLite file: the default, nothing to install. Shell.

For one machine: tasks prepare the rows of a batch as files in the work directory, and the driver
writes them from there, a few at a time. Rows, deletes and positions are one transaction. The file
is in WAL mode, so that others read while we write. Deleted content is overwritten in the file
(`secure_delete`), for a delete that leaves the bytes in free pages is none.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from ledgerstone.pipeline.column_types import sqlite_type
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import (
    DELETED_AT,
    OFFSET,
    ORIGIN_NAMES,
    PARTITION,
    TIMESTAMP,
    VALID_TO,
    Layout,
)
from ledgerstone.pipeline.tables import sql
from ledgerstone.pipeline.tables.evolution import as_noted, evolution, in_sqlite, type_names
from ledgerstone.pipeline.tables.file_area import STAGING, FileArea
from ledgerstone.pipeline.tables.group_merging import group_count
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.shards import ShardStage, new_stage, shard_names
from ledgerstone.pipeline.tables.sqlite_files import (
    ENDS,
    NEW,
    FileDone,
    FileJob,
    from_sqlite,
    rows_in,
    write_group,
)
from ledgerstone.pipeline.tables.target import (
    Applied,
    BatchStage,
    Executors,
    Followed,
    InProcess,
    Positions,
    Staged,
    TableTarget,
)

_ROWS_AT_ONCE: Final = 1 << 14
_BUSY_TIMEOUT_S: Final = 60.0
_MOST_GROUPS: Final = 256


class SqliteTable(TableTarget):
    def __init__(
        self,
        path: str,
        name: str,
        topic: str,
        layout: Layout,
        *,
        work: str | None = None,
        executors: Executors | None = None,
    ) -> None:
        """`work` is for files of a batch on its way; by default they are beside the table."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._area = FileArea(root=work or f"{path}-work")
        self._executors = executors or InProcess()
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
        self._db.execute(
            f"CREATE TABLE IF NOT EXISTS main.{sql.COLUMNS_TABLE} (table_name TEXT NOT NULL, "
            "column_name TEXT NOT NULL, type TEXT NOT NULL, "
            "PRIMARY KEY (table_name, column_name)) STRICT"
        )
        if not self._columns():
            self._create(types)
        self._evolve(types)
        self.drop_staged()

    def _evolve(self, types: Mapping[str, str]) -> None:
        noted = dict(
            self._db.execute(
                f"SELECT column_name, type FROM main.{sql.COLUMNS_TABLE} WHERE table_name = ?",
                (self._name,),
            )
        )
        columns = self._columns()
        others = {name: word for name, word in columns.items() if word != types.get(name)}
        found = as_noted(columns, noted, self._layout, others)
        change = evolution(f"table {self._name} in {self._path}", found, self._layout)
        wanted = type_names(self._layout)
        if noted == wanted:
            return
        with self._transaction():
            for name in change.added:
                self._db.execute(sql.add_column(self._table, name, types[name]))
            for each in change.widened:
                place, scratch = sql.quoted(each.name), sql.quoted("_ledgerstone_wider")
                for text in in_sqlite(each, self._table, place, types[each.name], scratch):
                    self._db.execute(text)
            self._db.executemany(
                f"INSERT OR REPLACE INTO main.{sql.COLUMNS_TABLE} VALUES (?, ?, ?)",
                [(self._name, *each) for each in wanted.items()],
            )

    def _create(self, types: Mapping[str, str]) -> None:
        """A dropped table starts over, whatever else is left of it."""
        with self._transaction():
            for each in sql.NOTES:
                self._db.execute(f"DELETE FROM main.{each} WHERE table_name = ?", (self._name,))
            self._db.execute(sql.create_table(self._table, self._layout, types, " STRICT"))

    def _columns(self) -> dict[str, str]:
        """With their types, as SQLite has them."""
        found = self._db.execute(f"PRAGMA main.table_info({self._quoted})")
        return {row[1]: row[2] for row in found}

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

    def stage(self, incoming: Incoming) -> ShardStage:
        groups = group_count(incoming, self._executors, _MOST_GROUPS)
        slots = np.arange(1 << (groups - 1).bit_length(), dtype=np.int32) % groups
        return new_stage(self._area, self._layout, slots, is_for_sqlite=True)

    def apply_staged(
        self,
        stage: BatchStage,
        staged: Sequence[Staged],
        positions: Mapping[int, int],
        *,
        forced: bool = False,
    ) -> Applied:
        assert isinstance(stage, ShardStage), "another target's stage"
        jobs = [FileJob(stage, group, names) for group, names in shard_names(staged).items()]
        done = self._executors.run(write_group, jobs)
        with self._transaction():
            for each in done:
                self._write(each, forced=forced)
            self._db.executemany(
                f"INSERT OR REPLACE INTO main.{sql.POSITIONS_TABLE} VALUES (?, ?, ?, ?)",
                [(self._name, self._topic, each, at) for each, at in sorted(positions.items())],
            )
        self._area.drop(stage.directory)
        return Applied(
            upserts=sum(each.upserts for each in done), deletes=sum(each.deletes for each in done)
        )

    def _write(self, file: FileDone, *, forced: bool) -> None:
        """A key is in one file only, and there at most once, unless it is a history."""
        if not Path(file.path).exists():
            raise PipelineError(
                f"{file.path}, which a task wrote, is not here: SQLite is for one machine; use "
                "master: local[*], or a work directory that all of Spark's workers see"
            )
        layout = self._layout
        with closing(sqlite3.connect(f"file:{quote(file.path)}?mode=ro", uri=True)) as source:
            if layout.deletes is Deletes.HISTORY:
                columns = [*layout.key_names, PARTITION, OFFSET, TIMESTAMP]
                self._many(self._close_version(columns), rows_in(source, ENDS, columns))
                columns = list(layout.types)
                self._many(self._insert(columns, "DO NOTHING"), rows_in(source, NEW, columns))
                return
            columns = [*layout.key_names, *layout.content_names]
            # A forced delete of a row does not look at where the change is from.
            is_bare = forced and layout.deletes is Deletes.HARD
            ends = [*layout.key_names, *(() if is_bare else ORIGIN_NAMES)]
            self._many(self._end(ends, forced=forced), rows_in(source, ENDS, ends))
            self._many(self._upsert(columns, forced=forced), rows_in(source, NEW, columns))
            if layout.deletes is Deletes.SOFT:
                # A key without a row gets one: that it was deleted is known all the same.
                known = [*columns, TIMESTAMP]
                text = self._insert([*columns, DELETED_AT], "DO NOTHING")
                self._many(text, rows_in(source, ENDS, known))

    def _many(self, text: str, rows: Iterator[tuple[Any, ...]]) -> None:
        self._db.executemany(text, rows)

    def _insert(self, columns: list[str], conflict: str) -> str:
        identity = sql.names(self._layout.row_identity)
        marks = ", ".join("?" * len(columns))
        return (
            f"INSERT INTO {self._table} ({sql.names(columns)}) VALUES ({marks}) "
            f"ON CONFLICT ({identity}) {conflict}"
        )

    def _upsert(self, columns: list[str], *, forced: bool) -> str:
        layout = self._layout
        sets = [f"{sql.quoted(n)} = excluded.{sql.quoted(n)}" for n in layout.content_names]
        if layout.deletes is Deletes.SOFT:
            sets.append(f"{sql.quoted(DELETED_AT)} = NULL")
        guard = "" if forced else f" WHERE {sql.is_newer('excluded', self._quoted)}"
        return self._insert(columns, f"DO UPDATE SET {', '.join(sets)}{guard}")

    def _end(self, columns: list[str], *, forced: bool) -> str:
        """One delete: its cells have names, by their place, so that each may be used twice."""
        layout = self._layout
        cell = {name: f"?{at}" for at, name in enumerate(columns, 1)}
        found = " AND ".join(f"{sql.quoted(n)} = {cell[n]}" for n in layout.key_names)
        if not forced:
            found += f" AND {_is_newer(cell)}"
        if layout.deletes is Deletes.SOFT:
            ended = {name: cell[name] for name in ORIGIN_NAMES} | {DELETED_AT: cell[TIMESTAMP]}
            sets = ", ".join(f"{sql.quoted(name)} = {value}" for name, value in ended.items())
            return f"UPDATE {self._table} SET {sets} WHERE {found}"
        return f"DELETE FROM {self._table} WHERE {found}"

    def _close_version(self, columns: list[str]) -> str:
        cell = {name: f"?{at}" for at, name in enumerate(columns, 1)}
        timeline = [*self._layout.key_names, PARTITION]
        found = " AND ".join(f"{sql.quoted(n)} = {cell[n]}" for n in timeline)
        return (
            f"UPDATE {self._table} SET {sql.quoted(VALID_TO)} = {cell[TIMESTAMP]} WHERE {found} "
            f"AND {sql.quoted(VALID_TO)} IS NULL AND {sql.quoted(OFFSET)} < {cell[OFFSET]}"
        )

    def drop_staged(self) -> None:
        self._area.drop(STAGING)

    def tidy(self) -> None:
        """There are no past versions."""

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


def _is_newer(cell: Mapping[str, str]) -> str:
    """As `sql.is_newer`, of cells against the row."""
    p, o, ts = map(sql.quoted, ORIGIN_NAMES)
    new_p, new_o, new_ts = (cell[name] for name in ORIGIN_NAMES)
    return (
        f"(({new_p} = {p} AND {new_o} > {o}) OR ({new_p} <> {p} AND "
        f"({new_ts} > {ts} OR ({new_ts} = {ts} AND {new_p} > {p}))))"
    )
