"""Commits as records of two topics; rows of a topic or table as `git ls-tree` has them. Pure.

`files` has a record for each change: the path, and the file's new entry. `authors` has one for each
commit: a name, and the number that stands for it. Only `authors` has names; `files` has numbers, so
that a person can be erased while the files stay. Neither has e-mail addresses.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from ledgerstone.demo.history import SUBMODULE_MODE, Commit, FileEntry, short

FILES: Final = "files"
AUTHORS: Final = "authors"
AUTHOR_PREFIX: Final = b"author:"
# If git has no size to show.
_NO_SIZE: Final = "-"
_MISSING_BLOB: Final = "BAD"


class KeyedRecord(NamedTuple):
    topic: str
    key: bytes
    value: bytes | None  # None: a tombstone
    timestamp_ms: int


class Author(NamedTuple):
    key: bytes
    number: int
    commits: int


class HistoryEncoder:
    """Numbers authors in the order in which they come."""

    def __init__(self) -> None:
        self.authors: dict[bytes, Author] = {}

    def records_of(self, commit: Commit) -> list[KeyedRecord]:
        author = self._count(AUTHOR_PREFIX + commit.author)
        time = iso_time(commit.time_ms)
        about = {"number": author.number, "commits": author.commits, "last": time}
        records = [KeyedRecord(AUTHORS, author.key, _json(about), commit.time_ms)]
        origin = {"author": author.number, "time": time, "commit": short(commit.commit_id)}
        for path, entry in commit.changes:
            value = None if entry is None else _json({**_facts(entry), **origin})
            records.append(KeyedRecord(FILES, path, value, commit.time_ms))
        return records

    def _count(self, key: bytes) -> Author:
        known = self.authors.get(key, Author(key, len(self.authors) + 1, 0))
        self.authors[key] = known._replace(commits=known.commits + 1)
        return self.authors[key]


def _facts(entry: FileEntry) -> dict[str, Any]:
    return {"mode": entry.mode, "blob": entry.blob, "size": entry.size_bytes}


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def iso_time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- and back -----------------------------------------------------------------------------------


class TreeRow(NamedTuple):
    """A path and its entry."""

    path: bytes
    mode: str
    blob: str
    size_bytes: int | None


def tree_row(path: bytes, value: bytes) -> TreeRow:
    said = json.loads(value)
    return TreeRow(path, said["mode"], said["blob"], said["size"])


def listing(rows: Iterable[TreeRow]) -> bytes:
    """What `git ls-tree -r -l -z` prints for a tree of these rows."""
    return b"".join(
        f"{row.mode} {_kind(row)} {row.blob} {_size(row):>7}\t".encode() + row.path + b"\0"
        for row in sorted(rows)
    )


def _kind(row: TreeRow) -> str:
    return "commit" if row.mode == SUBMODULE_MODE else "blob"


def _size(row: TreeRow) -> str:
    if row.size_bytes is not None:
        return str(row.size_bytes)
    return _NO_SIZE if row.mode == SUBMODULE_MODE else _MISSING_BLOB


# -- the tables ---------------------------------------------------------------------------------


def definitions(bootstrap: str, keys: Mapping[str, Iterable[bytes]]) -> dict[str, dict[str, Any]]:
    """The pipelines, as a YAML file would have them; docs/pipeline.md says what each key means."""
    files = {
        "mode": "string",
        "blob": "string",
        "size": "int64",
        "author": "int64",
        "time": "timestamp",
        "commit": "string",
    }
    authors = {"number": "int64", "commits": "int64", "last": "timestamp"}
    path = {"format": _key_format(keys[FILES]), "column": "path"}
    author = {"format": _key_format(keys[AUTHORS]), "column": "author"}
    return {
        FILES: _definition(bootstrap, FILES, path, files),
        AUTHORS: _definition(bootstrap, AUTHORS, author, authors),
    }


def _key_format(keys: Iterable[bytes]) -> str:
    """A path may not be text. If any is not, the column holds bytes."""
    try:
        for key in keys:
            key.decode()
    except UnicodeDecodeError:
        return "raw"
    return "string"


def _definition(
    bootstrap: str, topic: str, key: dict[str, str], columns: dict[str, str]
) -> dict[str, Any]:
    return {
        "name": topic,
        "source": {"topic": topic, "bootstrap": bootstrap},
        "key": key,
        "value": {"format": "json", "columns": columns},
        "table": {"type": "sqlite", "path": "tables.db", "keep_bytes": True},
        "work": f"work/{topic}",
    }
