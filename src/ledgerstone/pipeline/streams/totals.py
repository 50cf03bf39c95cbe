"""Aggregates over a changing table: a key's old contribution is retracted when it changes. Shell.

A SQLite file holds the group and measures of each live key, and nothing of deleted ones: the state
of an aggregate is a copy like any other, and an erased key leaves it with its tombstone. One
transaction holds the changes of a micro-batch, its number, and the groups to publish; so a repeated
batch changes nothing, and a group whose result was not written is written again. The file records
its definition: a number means nothing without the expression it came from.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.measures import (
    EXACT_FUNCTIONS,
    Measure,
    MeasureKind,
    result_of,
    selected,
)

__all__ = ["MAX_MEASURES", "Aggregate", "MeasureKind", "TableRow", "TotalsStore", "in_order"]

MAX_MEASURES: Final = 50
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS touched(grp TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS applied(batch_id INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS made_of(definition TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS told_to(topic TEXT NOT NULL, topic_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tellings(store_id TEXT NOT NULL, number INTEGER NOT NULL);
INSERT INTO tellings SELECT lower(hex(randomblob(16))), 1
    WHERE NOT EXISTS (SELECT 1 FROM tellings);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    name: str
    kind: MeasureKind
    column: str | None = None  # None: count rows


class TableRow(NamedTuple):
    key: bytes
    partition: int
    offset: int
    written_us: int  # the record's time
    group: tuple[Any, ...] | None  # None: the key is deleted, or belongs to no group
    measures: tuple[Any, ...]


class TotalsStore:
    """`measures` says how each aggregate's values are kept, whole numbers if nobody does.
    `definition` is the text of all that the numbers depend on."""

    def __init__(
        self,
        path: Path,
        aggregates: Sequence[Aggregate],
        *,
        measures: Sequence[Measure] | None = None,
        definition: str = "",
    ) -> None:
        if not aggregates or len(aggregates) > MAX_MEASURES:
            raise PipelineError(f"{len(aggregates)} aggregates, from 1 to {MAX_MEASURES} are taken")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._aggregates = tuple(aggregates)
        self._measures = tuple(measures or [Measure.WHOLE] * len(aggregates))
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA secure_delete=ON")
        for name, function in EXACT_FUNCTIONS.items():
            # It is given text, and typeshed knows of functions over numbers only.
            self._db.create_aggregate(name, 1, function)  # type: ignore[arg-type]
        columns = ", ".join(f"m{at}" for at in range(len(aggregates)))
        try:
            is_new = not self._db.execute("PRAGMA table_info(given)").fetchall()
            if is_new:
                self._db.executescript(
                    "BEGIN; CREATE TABLE given(key BLOB PRIMARY KEY, part INTEGER NOT NULL, "
                    "at INTEGER NOT NULL, written_us INTEGER NOT NULL, "
                    f"grp TEXT NOT NULL, {columns}) WITHOUT ROWID;"
                    f"CREATE INDEX by_group ON given(grp, {columns}); COMMIT;"
                )
            self._db.executescript(_TABLES)
            self._check_definition(path, definition or str(aggregates), is_new=is_new)
        except BaseException:
            self._db.close()
            raise

    def _check_definition(self, path: Path, definition: str, *, is_new: bool) -> None:
        known = self._db.execute("SELECT definition FROM made_of").fetchone()
        if known == (definition,):
            return
        if known is None and (is_new or not self._has_state()):
            self._db.execute("INSERT INTO made_of VALUES (?)", (definition,))
            return
        was = "an older version of this program" if known is None else known[0]
        raise PipelineError(
            f"{path} holds the state of other aggregates: it was made of {was}, and now it is "
            f"{definition}. Delete {path.parent}, which holds its checkpoint too, to start over"
        )

    def _has_state(self) -> bool:
        return self._db.execute("SELECT 1 FROM applied LIMIT 1").fetchone() is not None

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
        asked = [
            selected(each.kind, measure, None if each.column is None else f"m{at}")
            for at, (each, measure) in enumerate(zip(self._aggregates, self._measures, strict=True))
        ]
        columns = ", ".join(column for some in asked for column in some)
        query = f"SELECT count(*), {columns} FROM given WHERE grp=?"
        count, *values = self._db.execute(query, (group,)).fetchone()
        if not count:
            return None
        found = {}
        for each, measure, some in zip(self._aggregates, self._measures, asked, strict=True):
            own, values = values[: len(some)], values[len(some) :]
            found[each.name] = result_of(each.kind, measure, own)
        return found

    def tells(self, topic: str, topic_id: str) -> None:
        """Where results go. A topic that has not heard of any group is told of all of them."""
        known = self._db.execute("SELECT topic, topic_id FROM told_to").fetchone()
        if known == (topic, topic_id):
            return
        self._db.execute("BEGIN IMMEDIATE")
        if known is not None:
            self._db.execute("INSERT OR IGNORE INTO touched SELECT DISTINCT grp FROM given")
        self._db.execute("DELETE FROM told_to")
        self._db.execute("INSERT INTO told_to VALUES (?,?)", (topic, topic_id))
        self._db.execute("COMMIT")

    def told(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("DELETE FROM touched")
        self._db.execute("UPDATE tellings SET number = number + 1")
        self._db.execute("COMMIT")

    @property
    def store_id(self) -> str:
        found = self._db.execute("SELECT store_id FROM tellings").fetchone()[0]
        assert isinstance(found, str)
        return found

    @property
    def telling(self) -> int:
        """The number of the next `told`, so that a telling is known again."""
        found = self._db.execute("SELECT number FROM tellings").fetchone()[0]
        assert isinstance(found, int)
        return found


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
