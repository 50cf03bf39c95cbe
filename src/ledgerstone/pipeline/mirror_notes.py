"""What a mirror remembers between rounds: its positions, and how offsets map. Shell.

A SQLite file in the mirror's work directory; it holds offsets and no record.
"""

import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from ledgerstone.pipeline.mirror_offsets import CopiedRun, joined
from ledgerstone.types import TopicPartition

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS position(topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL,
    target_next INTEGER NOT NULL, PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS run(topic TEXT, partition INTEGER, source_start INTEGER,
    source_end INTEGER, target_start INTEGER, records INTEGER,
    PRIMARY KEY (topic, partition, source_start)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pair(topic TEXT PRIMARY KEY, source_id TEXT NOT NULL,
    copy TEXT NOT NULL, copy_id TEXT NOT NULL) WITHOUT ROWID;
"""


class Pair(NamedTuple):
    """The topics that the offsets belong to: a topic of the same name may be another one later."""

    source_id: str
    copy: str
    copy_id: str


class Noted(NamedTuple):
    next_offset: int
    target_next: int


class MirrorNotes:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path)
        self._db.executescript(_TABLES)

    def __enter__(self) -> "MirrorNotes":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def position(self, partition: TopicPartition) -> Noted | None:
        query = "SELECT next_offset, target_next FROM position WHERE topic=? AND partition=?"
        row = self._db.execute(query, partition).fetchone()
        return None if row is None else Noted(*row)

    def pair(self, topic: str) -> Pair | None:
        query = "SELECT source_id, copy, copy_id FROM pair WHERE topic=?"
        row = self._db.execute(query, (topic,)).fetchone()
        return None if row is None else Pair(*row)

    def note_pair(self, topic: str, pair: Pair) -> None:
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO pair VALUES (?,?,?,?)", (topic, *pair))

    def has_positions(self, topic: str) -> bool:
        query = "SELECT 1 FROM position WHERE topic=? AND next_offset > 0 LIMIT 1"
        return self._db.execute(query, (topic,)).fetchone() is not None

    def note(self, partition: TopicPartition, noted: Noted, runs: list[CopiedRun]) -> None:
        """One transaction: a position without its runs would lose translations forever."""
        query = "SELECT max(source_start) FROM run WHERE topic=? AND partition=?"
        (last,) = self._db.execute(query, partition).fetchone()
        before = [] if last is None else self.runs(partition, from_start=last)
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO position VALUES (?,?,?,?)", (*partition, *noted)
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO run VALUES (?,?,?,?,?,?)",
                [(*partition, *run) for run in joined([*before, *runs])],
            )

    def runs(self, partition: TopicPartition, *, from_start: int = 0) -> list[CopiedRun]:
        rows = self._db.execute(
            "SELECT source_start, source_end, target_start, records FROM run "
            "WHERE topic=? AND partition=? AND source_start>=? ORDER BY source_start",
            (*partition, from_start),
        )
        return [CopiedRun(*row) for row in rows]
