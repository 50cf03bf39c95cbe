"""Compares a database table with its topic: changes to write, tombstones included. Shell.

With a version column, every key and version is read, and only rows whose version changed. Without
one, every row is read and compared by its bytes. Either way the comparison sees one snapshot of the
table, so a row that was committed late, or whose version went back, is not missed.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources.row_bytes import digest, value_bytes, version_text
from ledgerstone.pipeline.sources.shadow import Shadow
from ledgerstone.pipeline.sources.shape import TableShape
from ledgerstone.pipeline.sources.topic_feed import FeedChange

_ROWS_AT_ONCE: Final = 1_000

Row = dict[str, Any]
KeyValues = tuple[Any, ...]


class TableSnapshot(Protocol):
    """One table as it is at one moment."""

    def keys_and_versions(self) -> Iterator[tuple[KeyValues, object]]: ...

    def all_rows(self) -> Iterator[Row]: ...

    def rows_of(self, keys: Sequence[KeyValues]) -> Iterator[tuple[KeyValues, Row | None]]:
        """Each key, and its row; None where there is none."""
        ...


def changes(shape: TableShape, snapshot: TableSnapshot, shadow: Shadow) -> Iterator[FeedChange]:
    """Everything that makes the topic equal to the snapshot; writes first, then tombstones."""
    shadow.begin_comparison()
    if shape.version_column is None:
        yield from _by_bytes(shape, snapshot.all_rows(), shadow)
    else:
        yield from _by_version(shape, snapshot, shadow)
    gone = list(shadow.unseen())
    if shape.max_deletes is not None and len(gone) > shape.max_deletes:
        raise PipelineError(
            f"table {shape.table}: {len(gone)} rows are gone since the last run, more than "
            f"max_deletes={shape.max_deletes}; no tombstone was written. Raise it if these "
            "deletes are intended"
        )
    for key in gone:
        yield FeedChange(key, None)


def changes_of(
    shape: TableShape, keys: Sequence[KeyValues], snapshot: TableSnapshot, shadow: Shadow
) -> Iterator[FeedChange]:
    """As `changes`, for keys that are known to have changed."""
    for values, row in snapshot.rows_of(keys):
        key = shape.key_of(values)
        if row is not None:
            yield from _changed(shape, key, row, shadow)
        elif shadow.get(key) is not None:
            yield FeedChange(key, None)


def _by_bytes(shape: TableShape, rows: Iterable[Row], shadow: Shadow) -> Iterator[FeedChange]:
    for row in rows:
        key = shape.key_of([row[name] for name in shape.key_columns])
        _see(shape, shadow, [key])
        yield from _changed(shape, key, row, shadow)


def _by_version(shape: TableShape, snapshot: TableSnapshot, shadow: Shadow) -> Iterator[FeedChange]:
    pairs = snapshot.keys_and_versions()
    while some := list(islice(pairs, _ROWS_AT_ONCE)):
        keys = [shape.key_of(values) for values, _ in some]
        _see(shape, shadow, keys)
        outdated = [
            values
            for key, (values, version) in zip(keys, some, strict=True)
            if not _has_version(shadow, key, version_text(version))
        ]
        if outdated:
            yield from changes_of(shape, outdated, snapshot, shadow)


def _see(shape: TableShape, shadow: Shadow, keys: Sequence[bytes]) -> None:
    """Rows that share a key would replace each other in every run, without an end."""
    if shadow.see(keys) < len(keys):
        raise PipelineError(
            f"table {shape.table}: several rows have the same {', '.join(shape.key_columns)}; the "
            "key of a source has to be unique"
        )


def _has_version(shadow: Shadow, key: bytes, version: str | None) -> bool:
    held = shadow.get(key)
    return held is not None and version is not None and held.version == version


def _changed(shape: TableShape, key: bytes, row: Row, shadow: Shadow) -> Iterator[FeedChange]:
    value = value_bytes({name: row[name] for name in shape.columns} if shape.columns else row)
    version = None if shape.version_column is None else version_text(row[shape.version_column])
    held = shadow.get(key)
    if held is None or held.digest != digest(value):
        yield FeedChange(key, value, version)
    elif held.version != version:
        shadow.put(key, held.digest, version)
