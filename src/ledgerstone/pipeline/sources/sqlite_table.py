"""A table of a SQLite file as a source. Shell; opens the file to read only."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources.shape import TableShape
from ledgerstone.pipeline.sources.table_diff import KeyValues, Row


def quoted(name: str) -> str:
    if "\x00" in name:
        raise PipelineError(f"{name!r}: a name cannot hold a null character")
    return '"' + name.replace('"', '""') + '"'


class SqliteSnapshot:
    """All reads see the table as it was when the transaction began."""

    def __init__(self, db: sqlite3.Connection, shape: TableShape) -> None:
        self._db = db
        self._shape = shape
        self._table = quoted(shape.table)
        self._keys = ", ".join(quoted(name) for name in shape.key_columns)

    def keys_and_versions(self) -> Iterator[tuple[KeyValues, object]]:
        assert self._shape.version_column is not None
        version = quoted(self._shape.version_column)
        for row in self._db.execute(f"SELECT {self._keys}, {version} FROM {self._table}"):
            yield tuple(row[:-1]), row[-1]

    def all_rows(self) -> Iterator[Row]:
        cursor = self._db.execute(f"SELECT * FROM {self._table}")
        names = [column[0] for column in cursor.description]
        for row in cursor:
            yield dict(zip(names, row, strict=True))

    def rows_of(self, keys: Sequence[KeyValues]) -> Iterator[tuple[KeyValues, Row | None]]:
        wanted = " AND ".join(f"{quoted(name)} IS ?" for name in self._shape.key_columns)
        query = f"SELECT * FROM {self._table} WHERE {wanted}"
        for key in keys:
            cursor = self._db.execute(query, key)
            found = cursor.fetchone()
            names = [column[0] for column in cursor.description]
            yield key, None if found is None else dict(zip(names, found, strict=True))


@contextmanager
def sqlite_snapshot(path: str, shape: TableShape) -> Iterator[SqliteSnapshot]:
    if not Path(path).is_file():
        raise PipelineError(f"{path} is not a file")
    db = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
    try:
        db.execute("BEGIN")
        # A transaction of SQLite sees the file as it was at its first read.
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield SqliteSnapshot(db, shape)
    except sqlite3.Error as error:
        raise PipelineError(f"{path}, table {shape.table}: {error}") from error
    finally:
        db.close()
