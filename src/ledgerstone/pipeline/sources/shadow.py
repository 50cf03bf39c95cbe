"""The content of the topic, as far as a source has seen it: a SQLite file. Shell.

It is derived from the topic alone. Losing it costs one read of the topic, and a crash costs
nothing: records that were written but not noted are read back before the next comparison. It
contains keys, which tombstones need, and digests of values. Deleted keys are overwritten with zeros
(`secure_delete`), since the file is a copy of personal data like any other.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS held(key BLOB PRIMARY KEY, digest BLOB NOT NULL, version TEXT)
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS position(partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS mark(name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TEMP TABLE IF NOT EXISTS seen(key BLOB PRIMARY KEY) WITHOUT ROWID;
"""


class Held(NamedTuple):
    digest: bytes
    version: str | None  # None: only the digest tells whether a row has changed


class Shadow:
    """One connection; changes count once `save` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA secure_delete=ON")
        self._db.execute("PRAGMA journal_mode=DELETE")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_TABLES)
        self._db.execute("BEGIN")

    def __enter__(self) -> "Shadow":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def save(self) -> None:
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")

    def forget_everything(self) -> None:
        for table in ("held", "position", "mark"):
            self._db.execute(f"DELETE FROM {table}")

    # -- what is held ---------------------------------------------------------------------------

    def get(self, key: bytes) -> Held | None:
        row = self._db.execute("SELECT digest, version FROM held WHERE key=?", (key,)).fetchone()
        return None if row is None else Held(*row)

    def put(self, key: bytes, digest: bytes, version: str | None) -> None:
        self._db.execute("INSERT OR REPLACE INTO held VALUES (?,?,?)", (key, digest, version))

    def read_back(self, key: bytes, digest: bytes) -> None:
        """As the topic has it. A version that was noted with the same bytes is still right."""
        self._db.execute(
            "INSERT INTO held VALUES (?,?,NULL) ON CONFLICT(key) DO UPDATE SET "
            "version=CASE WHEN digest=excluded.digest THEN version END, digest=excluded.digest",
            (key, digest),
        )

    def forget_versions(self) -> None:
        """From now on only the digests tell whether rows have changed."""
        self._db.execute("UPDATE held SET version=NULL")

    def remove(self, key: bytes) -> None:
        self._db.execute("DELETE FROM held WHERE key=?", (key,))

    def __len__(self) -> int:
        count: int = self._db.execute("SELECT count(*) FROM held").fetchone()[0]
        return count

    # -- one comparison -------------------------------------------------------------------------

    def begin_comparison(self) -> None:
        self._db.execute("DELETE FROM seen")

    def see(self, keys: Iterable[bytes]) -> int:
        """How many of them the comparison has come across for the first time."""
        rows = ((key,) for key in keys)
        return self._db.executemany("INSERT OR IGNORE INTO seen VALUES (?)", rows).rowcount

    def unseen(self) -> Iterator[bytes]:
        """Keys the topic holds that the comparison has not come across."""
        query = "SELECT key FROM held WHERE NOT EXISTS (SELECT 1 FROM seen WHERE seen.key=held.key)"
        yield from [row[0] for row in self._db.execute(query)]

    # -- how far it goes ------------------------------------------------------------------------

    def positions(self) -> dict[int, int]:
        return dict(self._db.execute("SELECT partition, next_offset FROM position"))

    def set_position(self, partition: int, next_offset: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO position VALUES (?,?)", (partition, next_offset))

    def mark(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM mark WHERE name=?", (name,)).fetchone()
        return None if row is None else row[0]

    def set_mark(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO mark VALUES (?,?)", (name, value))

    def marks(self, prefix: str) -> dict[str, str]:
        rows = self._db.execute("SELECT name, value FROM mark")
        return {name.removeprefix(prefix): value for name, value in rows if name.startswith(prefix)}
