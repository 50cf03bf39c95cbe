"""Aggregates over a table that changes: what a key gave is taken back when it changes. Shell.

A SQLite file keeps, of each live key, its group and its measures, and nothing of a deleted one: the
state of an aggregate is a copy like any other, and an erased key leaves it with its tombstone. One
transaction holds the changes of a micro-batch, its number, and which groups have to be told; so a
batch that is repeated changes nothing, and a group whose result was not written is written again.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from ledgerstone.pipeline.errors import PipelineError

MAX_MEASURES: Final = 50
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS touched(grp TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS applied(batch_id INTEGER NOT NULL);
"""
# Columns of `given` before the measures.
_FIXED: Final = ("key", "part", "at", "written_us", "grp")


class Kind(Enum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    name: str
    kind: Kind
    column: str | None = None  # None: count rows


class TableRow(NamedTuple):
    key: bytes
    partition: int
    offset: int
    written_us: int  # the record's time
    group: tuple[Any, ...] | None  # None: the key is deleted, or belongs to no group
    measures: tuple[Any, ...]


class TotalsStore:
    def __init__(self, path: Path, aggregates: Sequence[Aggregate]) -> None:
        if not aggregates or len(aggregates) > MAX_MEASURES:
            raise PipelineError(f"{len(aggregates)} aggregates, from 1 to {MAX_MEASURES} are taken")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._aggregates = tuple(aggregates)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA secure_delete=ON")
        measures = ", ".join(f"m{at}" for at in range(len(aggregates)))
        self._db.executescript(
            "CREATE TABLE IF NOT EXISTS given(key BLOB PRIMARY KEY, part INTEGER NOT NULL, "
            "at INTEGER NOT NULL, written_us INTEGER NOT NULL, "
            f"grp TEXT NOT NULL, {measures}) WITHOUT ROWID;"
            f"CREATE INDEX IF NOT EXISTS by_group ON given(grp, {measures});" + _TABLES
        )
        found = [row[1] for row in self._db.execute("PRAGMA table_info(given)")]
        if len(found) != len(_FIXED) + len(aggregates) or found[: len(_FIXED)] != list(_FIXED):
            self._db.close()
            raise PipelineError(
                f"{path} holds the state of other aggregates, with columns {', '.join(found)}; "
                "delete it with its checkpoint to begin anew"
            )

    def close(self) -> None:
        self._db.close()

    def apply(self, batch_id: int, rows: Sequence[TableRow]) -> bool:
        """False where the batch was applied before."""
        last = self._db.execute("SELECT max(batch_id) FROM applied").fetchone()[0]
        if last is not None and batch_id <= last:
            return False
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for row in in_order(rows):
                self._apply(row)
            self._db.execute("DELETE FROM applied")
            self._db.execute("INSERT INTO applied VALUES (?)", (batch_id,))
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        return True

    def _apply(self, row: TableRow) -> None:
        query = "SELECT part, at, written_us, grp FROM given WHERE key=?"
        known = self._db.execute(query, (row.key,)).fetchone()
        if known is not None:
            if not _is_newer(row, *known[:3]):
                return
            self._touch(known[3])
            self._db.execute("DELETE FROM given WHERE key=?", (row.key,))
        if row.group is None:
            return
        group = json.dumps(row.group, ensure_ascii=False)
        cells = (row.key, row.partition, row.offset, row.written_us, group, *row.measures)
        places = ",".join("?" * len(cells))
        self._db.execute(f"INSERT INTO given VALUES ({places})", cells)
        self._touch(group)

    def _touch(self, group: str) -> None:
        self._db.execute("INSERT OR IGNORE INTO touched VALUES (?)", (group,))

    def untold(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Any] | None]]:
        """Groups whose result has changed; None where nothing is left in one."""
        groups = [row[0] for row in self._db.execute("SELECT grp FROM touched ORDER BY grp")]
        for group in groups:
            yield tuple(json.loads(group)), self._result(group)

    def _result(self, group: str) -> dict[str, Any] | None:
        columns = ", ".join(
            "count(*)" if each.column is None else f"{each.kind.value}(m{at})"
            for at, each in enumerate(self._aggregates)
        )
        query = f"SELECT count(*), {columns} FROM given WHERE grp=?"
        count, *values = self._db.execute(query, (group,)).fetchone()
        if not count:
            return None
        return {each.name: value for each, value in zip(self._aggregates, values, strict=True)}

    def told(self) -> None:
        self._db.execute("DELETE FROM touched")


def in_order(rows: Sequence[TableRow]) -> list[TableRow]:
    """The last of each key and partition, the one that counts at the end.

    Nothing is kept of a deleted key, so an older row of another partition must not come after its
    tombstone."""
    last: dict[tuple[bytes, int], TableRow] = {}
    for row in sorted(rows, key=lambda row: row.offset):
        last[row.key, row.partition] = row
    return sorted(last.values(), key=lambda row: (row.written_us, row.partition))


def _is_newer(row: TableRow, partition: int, offset: int, written_us: int) -> bool:
    """Offsets of different partitions say nothing about order: there the younger record counts."""
    if row.partition == partition:
        return row.offset > offset
    return (row.written_us, row.partition) > (written_us, partition)
