"""What a mirror remembers between rounds: positions, checks for deletes, erasures. Shell.

A SQLite file in the mirror's work directory. It holds offsets and ids, and no part of a record: the
key of an erasure is read again where it is needed.
"""

import sqlite3
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from ledgerstone.pipeline.mirror.marks import CarriedErasure
from ledgerstone.pipeline.mirror.offsets import CopiedRun, joined
from ledgerstone.types import TopicPartition

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS position(topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL,
    target_next INTEGER NOT NULL, PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS run(topic TEXT, partition INTEGER, source_start INTEGER,
    source_end INTEGER, target_start INTEGER, records INTEGER,
    PRIMARY KEY (topic, partition, source_start)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pair(topic TEXT PRIMARY KEY, source_id TEXT NOT NULL,
    copy TEXT NOT NULL, copy_id TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checked(topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL,
    removed_below INTEGER NOT NULL, without TEXT NOT NULL,
    PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS erasure(id TEXT PRIMARY KEY, topic TEXT NOT NULL,
    partition INTEGER NOT NULL, source_offset INTEGER NOT NULL, target_offset INTEGER,
    state TEXT NOT NULL, target_id TEXT, tries INTEGER NOT NULL) WITHOUT ROWID;
"""


class Pair(NamedTuple):
    """The topics that the offsets belong to: a topic of the same name may be another one later."""

    source_id: str
    copy: str
    copy_id: str


class Noted(NamedTuple):
    next_offset: int
    target_next: int


class DeletesChecked(NamedTuple):
    """Up to where every delete of a partition is known to be in the copy."""

    next_offset: int
    removed_below: int  # tombstones below were gone at that time
    without: str = ""  # replicas that could not be asked then


class ErasureState(Enum):
    SEEN = "seen"  # its tombstone was copied
    ASKED = "asked"  # the target erases the key as `target_id`
    FOUND = "found"  # the target's scan has found the key; said so to the source
    MISSED = "missed"  # its tombstone was removed before it was read; the source is to be told
    LOST = "lost"  # the tombstone is gone from both logs; the source is to be told
    OVER = "over"  # the source was told how it ended


class NotedErasure(NamedTuple):
    id: str  # of the source
    topic: str  # of the original
    partition: int
    source_offset: int
    target_offset: int | None
    state: ErasureState = ErasureState.SEEN
    target_id: str | None = None
    tries: int = 0  # to tell the source


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

    def note(
        self,
        partition: TopicPartition,
        noted: Noted,
        runs: list[CopiedRun],
        erasures: Iterable[CarriedErasure] = (),
    ) -> None:
        """One transaction: a position without its runs would lose translations for ever, and one
        without its erasures would leave them undone."""
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
            for each in erasures:
                # One erasure may have tombstones in several partitions, and is carried once.
                self._db.execute(
                    "INSERT OR IGNORE INTO erasure VALUES (?,?,?,?,?,?,NULL,0)",
                    (each.erasure_id, *partition, each.source_offset, each.target_offset,
                     ErasureState.SEEN.value),
                )  # fmt: skip

    def runs(self, partition: TopicPartition, *, from_start: int = 0) -> list[CopiedRun]:
        rows = self._db.execute(
            "SELECT source_start, source_end, target_start, records FROM run "
            "WHERE topic=? AND partition=? AND source_start>=? ORDER BY source_start",
            (*partition, from_start),
        )
        return [CopiedRun(*row) for row in rows]

    # -- deletes --------------------------------------------------------------------------------

    def checked(self, partition: TopicPartition) -> DeletesChecked | None:
        query = (
            "SELECT next_offset, removed_below, without FROM checked WHERE topic=? AND partition=?"
        )
        row = self._db.execute(query, partition).fetchone()
        return None if row is None else DeletesChecked(*row)

    def note_checked(self, partition: TopicPartition, checked: DeletesChecked) -> None:
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO checked VALUES (?,?,?,?,?)", (*partition, *checked)
            )

    # -- erasures -------------------------------------------------------------------------------

    def erasures(self) -> list[NotedErasure]:
        """Those that something is left to do for."""
        rows = self._db.execute(
            "SELECT * FROM erasure WHERE state<>? ORDER BY topic, partition, source_offset",
            (ErasureState.OVER.value,),
        )
        return [_erasure(row) for row in rows]

    def erasure(self, erasure_id: str) -> NotedErasure | None:
        query = "SELECT * FROM erasure WHERE id=?"
        row = self._db.execute(query, (erasure_id,)).fetchone()
        return None if row is None else _erasure(row)

    def note_erasure(self, erasure: NotedErasure) -> None:
        row = erasure._replace(state=erasure.state.value)  # type: ignore[arg-type]
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO erasure VALUES (?,?,?,?,?,?,?,?)", row)


def _erasure(row: tuple[object, ...]) -> NotedErasure:
    found = NotedErasure(*row)  # type: ignore[arg-type]
    return found._replace(state=ErasureState(found.state))
