"""A table in a DuckDB file. Shell.

For one machine: tasks write the changes of a batch as Parquet files in the work directory, and
DuckDB merges these files itself. The MERGE and the positions are one transaction. The table has no
index: DuckDB joins a batch with the key column as a whole, and an index would keep deleted keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from ledgerstone.pipeline.column_types import AnyType, ColumnType, duckdb_type
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables import sql
from ledgerstone.pipeline.tables.duckdb_file import asked, columns_of, opened_file, transaction
from ledgerstone.pipeline.tables.evolution import as_noted, evolution, type_names
from ledgerstone.pipeline.tables.file_area import STAGING, FileArea
from ledgerstone.pipeline.tables.file_staging import FileStage, new_file_stage
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.merge_text import MergeText
from ledgerstone.pipeline.tables.target import (
    Applied,
    BatchStage,
    Followed,
    Positions,
    Staged,
    TableTarget,
)

_ROWS_AT_ONCE: Final = 1 << 16


class DuckdbTable(TableTarget):
    def __init__(
        self, path: str, name: str, topic: str, layout: Layout, *, work: str | None = None
    ) -> None:
        """`work` is for files of a batch on its way; by default they are beside the table."""
        self._path = path
        self._area = FileArea(root=work or f"{path}-work")
        self._layout = layout
        self._topic = topic
        self._name = name
        self._table = f"main.{sql.quoted(name)}"

    def _opened(self) -> Any:  # noqa: ANN401 - a context of a connection
        return opened_file(self._path, f"{self._area.root}/{STAGING}/spill")

    def prepare(self) -> None:
        Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        types = {name: duckdb_type(kind) for name, kind in self._layout.types.items()}
        with self._opened() as db:
            db.execute(
                f"CREATE TABLE IF NOT EXISTS main.{sql.POSITIONS_TABLE} (table_name VARCHAR "
                'NOT NULL, topic VARCHAR NOT NULL, "partition" INTEGER NOT NULL, '
                "next_offset BIGINT NOT NULL)"
            )
            db.execute(
                f"CREATE TABLE IF NOT EXISTS main.{sql.TOPICS_TABLE} (table_name VARCHAR NOT NULL, "
                "topic VARCHAR NOT NULL, topic_id VARCHAR NOT NULL)"
            )
            db.execute(
                f"CREATE TABLE IF NOT EXISTS main.{sql.COLUMNS_TABLE} (table_name VARCHAR "
                "NOT NULL, column_name VARCHAR NOT NULL, type VARCHAR NOT NULL)"
            )
            if not columns_of(db, self._name):
                self._create(db, types)
            self._evolve(db, types)
        self.drop_staged()

    def _evolve(self, db: "duckdb.DuckDBPyConnection", types: Mapping[str, str]) -> None:
        noted = dict(
            db.execute(
                f"SELECT column_name, type FROM main.{sql.COLUMNS_TABLE} WHERE table_name = ?",
                (self._name,),
            ).fetchall()
        )
        found = as_noted(columns_of(db, self._name), noted, self._layout)
        change = evolution(f"table {self._name} in {self._path}", found, self._layout)
        wanted = type_names(self._layout)
        if noted == wanted:
            return
        with transaction(db):
            for name in change.added:
                db.execute(sql.add_column(self._table, name, types[name]))
            for each in change.widened:
                db.execute(sql.widen_column(self._table, each.name, types[each.name]))
            db.execute(f"DELETE FROM main.{sql.COLUMNS_TABLE} WHERE table_name = ?", (self._name,))
            db.executemany(
                f"INSERT INTO main.{sql.COLUMNS_TABLE} VALUES (?, ?, ?)",
                [(self._name, *each) for each in wanted.items()],
            )

    def _create(self, db: "duckdb.DuckDBPyConnection", types: Mapping[str, str]) -> None:
        """A dropped table starts over, whatever else is left of it."""
        with transaction(db):
            for each in sql.NOTES:
                db.execute(f"DELETE FROM main.{each} WHERE table_name = ?", (self._name,))
            db.execute(sql.create_table(self._table, self._layout, types, has_unique_rows=False))

    def positions(self) -> Positions:
        if not Path(self._path).exists():
            return {}
        with self._opened() as db:
            if not columns_of(db, sql.POSITIONS_TABLE):
                return {}
            found = db.execute(
                f'SELECT "partition", next_offset FROM main.{sql.POSITIONS_TABLE} '
                "WHERE table_name = ? AND topic = ? ORDER BY 1",
                (self._name, self._topic),
            )
            return dict(found.fetchall())

    def followed(self) -> Followed | None:
        with self._opened() as db:
            found = db.execute(
                f"SELECT topic, topic_id FROM main.{sql.TOPICS_TABLE} WHERE table_name = ?",
                (self._name,),
            ).fetchall()
        return Followed(*found[0]) if found else None

    def follow(self, followed: Followed) -> None:
        with self._opened() as db, transaction(db):
            db.execute(f"DELETE FROM main.{sql.TOPICS_TABLE} WHERE table_name = ?", (self._name,))
            db.execute(
                f"INSERT INTO main.{sql.TOPICS_TABLE} VALUES (?, ?, ?)", (self._name, *followed)
            )

    def stage(self, incoming: Incoming) -> FileStage:
        return new_file_stage(self._area, self._layout)

    def apply_staged(
        self,
        stage: BatchStage,
        staged: Sequence[Staged],
        positions: Mapping[int, int],
        *,
        forced: bool = False,
    ) -> Applied:
        assert isinstance(stage, FileStage), "another target's stage"
        paths = [stage.path(each.name) for each in staged if each.name]
        for path in paths:
            if not path.exists():
                raise PipelineError(
                    f"{path}, which a task wrote, is not here: DuckDB is for one machine; use "
                    "master: local[*], or a work directory that all of Spark's workers see"
                )
        upserts = sum(each.upserts for each in staged)
        deletes = sum(each.deletes for each in staged)
        with self._opened() as db, transaction(db):
            if paths:
                merge = self._merge_text(paths)
                if self._layout.deletes is Deletes.HISTORY:
                    db.execute(merge.close_versions())
                    db.execute(merge.insert_versions())
                else:
                    is_twice = asked(db, merge.has_a_key_twice()) == (True,)
                    if is_twice:
                        upserts, deletes = asked(db, merge.count_kept())
                    db.execute(merge.merge(forced=forced, one_per_key=is_twice))
            self._move(db, positions)
        self._area.drop(stage.directory)
        return Applied(upserts=upserts, deletes=deletes)

    def _merge_text(self, paths: Sequence[Path]) -> MergeText:
        # A list, because a text alone may be a pattern of names.
        listed = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
        return MergeText(
            self._table,
            [f"read_parquet([{listed}])"],
            self._layout,
            cast_to=_cast_to,
            has_unique_rows=False,
        )

    def _move(self, db: "duckdb.DuckDBPyConnection", positions: Mapping[int, int]) -> None:
        for partition, at in sorted(positions.items()):
            db.execute(
                f"DELETE FROM main.{sql.POSITIONS_TABLE} "
                'WHERE table_name = ? AND topic = ? AND "partition" = ?',
                (self._name, self._topic, partition),
            )
            db.execute(
                f"INSERT INTO main.{sql.POSITIONS_TABLE} VALUES (?, ?, ?, ?)",
                (self._name, self._topic, partition, at),
            )

    def drop_staged(self) -> None:
        self._area.drop(STAGING)

    def tidy(self) -> None:
        """There are no past versions."""

    def rows(self) -> Iterator[pa.Table]:
        schema = self._layout.table_schema
        with self._opened() as db:
            found = db.sql(f"SELECT {sql.names(schema.names)} FROM {self._table}")
            for batch in found.to_arrow_reader(_ROWS_AT_ONCE):
                yield pa.Table.from_batches([batch]).cast(schema)

    def close(self) -> None:
        """Nothing is kept open."""


def _cast_to(kind: AnyType) -> str | None:
    # Arrow has the other types that DuckDB has; a time of day is text there.
    return duckdb_type(kind) if kind is ColumnType.TIME else None
