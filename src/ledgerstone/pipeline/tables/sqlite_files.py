"""One group of keys as a SQLite file that the driver reads row by row: the second step. Shell.

Tasks turn columns into cells, which is most of the work, and sort the rows by key, so that they go
into the table's index in order. The files are scratch: no journal, nothing synced.
"""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.column_types import AnyType, ColumnType, DecimalType, arrow_type
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.layout import DELETED
from ledgerstone.pipeline.tables import sql
from ledgerstone.pipeline.tables.group_merging import settled
from ledgerstone.pipeline.tables.history import versions_of
from ledgerstone.pipeline.tables.shards import HASH, ShardStage, read_group
from ledgerstone.pipeline.tables.target import counted

_ROWS_AT_ONCE: Final = 1 << 14
# Tables of such a file: rows to write, and what deletes or ends others.
NEW: Final = "new"
ENDS: Final = "ends"


class FileJob(NamedTuple):
    """Picklable."""

    stage: ShardStage
    group: int
    names: tuple[str, ...]


class FileDone(NamedTuple):
    path: str
    upserts: int
    deletes: int


def write_group(job: FileJob) -> FileDone:
    stage, layout = job.stage, job.stage.layout
    changes = settled(read_group(stage, job.names, job.group), layout)
    upserts, deletes = counted(changes)
    changes = changes.drop_columns(HASH)
    if layout.deletes is Deletes.HISTORY:
        versions = versions_of(changes, layout)
        new, ends = versions.new, versions.closed
    else:
        by_key = [(name, "ascending") for name in layout.key_names]
        changes = changes.sort_by(by_key).select(
            [*layout.key_names, *layout.content_names, DELETED]
        )
        is_delete = changes.column(DELETED)
        new = changes.filter(pc.invert(is_delete)).drop_columns(DELETED)
        ends = changes.filter(is_delete).drop_columns(DELETED)
    # One attempt does not write to the file of another.
    path = Path(stage.area.root) / stage.path(uuid.uuid4().hex[:16], job.group)
    path = path.with_suffix(".sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("BEGIN")
        fill(db, NEW, new)
        fill(db, ENDS, ends)
        db.execute("COMMIT")
    return FileDone(str(path), upserts, deletes)


def fill(db: sqlite3.Connection, name: str, table: pa.Table) -> None:
    db.execute(f"CREATE TABLE {name} ({sql.names(table.column_names)})")
    marks = ", ".join("?" * table.num_columns)
    for start in range(0, table.num_rows, _ROWS_AT_ONCE):
        piece = table.slice(start, _ROWS_AT_ONCE)
        cells = zip(*(to_sqlite(piece.column(n)) for n in piece.column_names), strict=True)
        db.executemany(f"INSERT INTO {name} VALUES ({marks})", cells)


def rows_in(db: sqlite3.Connection, name: str, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    """In the order in which they were written; never more than a few are in memory."""
    return iter(db.execute(f"SELECT {sql.names(columns)} FROM {name} ORDER BY _rowid_"))


def to_sqlite(column: pa.ChunkedArray) -> list[Any]:
    """Timestamps and dates as ISO 8601, which SQLite's own functions understand; decimals as text
    with all digits after the point, because a SQLite number would lose some."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        text = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
        column = text
    elif pa.types.is_decimal(kind):
        return [None if each is None else f"{each:f}" for each in column.to_pylist()]
    elif pa.types.is_date32(kind):
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
