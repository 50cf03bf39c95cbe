"""One run of a source: read back, compare, write. Shell.

A run may be killed at any moment and started again; a lock prevents two at a time.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledgerstone.client.blocking import Client
from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources.files import file_changes
from ledgerstone.pipeline.sources.shadow import Shadow
from ledgerstone.pipeline.sources.shape import TableShape
from ledgerstone.pipeline.sources.source_definition import SourceDefinition, SourceType
from ledgerstone.pipeline.sources.table_diff import TableSnapshot, changes, changes_of
from ledgerstone.pipeline.sources.topic_feed import Published, TopicFeed


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    read_back: int  # records of the topic this run had to look at first
    written: int
    tombstones: int
    keys: int  # the topic holds now


def run_source(definition: SourceDefinition) -> SourceReport:
    with connect_to(definition.bootstrap, definition.command_config) as client:
        return run_with(client, definition)


def run_with(client: Client, definition: SourceDefinition) -> SourceReport:
    work = Path(definition.work)
    with _locked(work), Shadow(work / "topic.sqlite") as shadow:
        feed = TopicFeed(client, definition.topic, shadow)
        read_back = feed.catch_up()
        published = _publish(feed, definition)
        shadow.save()
        return SourceReport(
            read_back=read_back,
            written=published.written,
            tombstones=published.tombstones,
            keys=len(shadow),
        )


def _publish(feed: TopicFeed, definition: SourceDefinition) -> Published:
    if definition.type is SourceType.FILES:
        return feed.publish(
            file_changes(
                feed, definition.location, pattern=definition.pattern, mode=definition.mode
            )
        )
    assert definition.shape is not None
    _note_shape(feed.shadow, definition.shape)
    if definition.slot is not None:
        return _publish_decoded(feed, definition, definition.slot, definition.shape)
    with _snapshot(definition, definition.shape) as snapshot:
        return feed.publish(changes(definition.shape, snapshot, feed.shadow))


def _note_shape(shadow: Shadow, shape: TableShape) -> None:
    """Rows that did not change are other records where the definition did: with other columns, or
    another key. Saved with the first records, so that a run that dies is repeated."""
    names = (shape.table, shape.key_columns, shape.key_format.value, shape.columns)
    said, before = repr((*names, shape.version_column)), shadow.mark("shape")
    if before not in (None, said):
        shadow.forget_versions()
        # And everything is compared once more.
        shadow.set_mark("slot", "")
    shadow.set_mark("shape", said)


def _publish_decoded(
    feed: TopicFeed, definition: SourceDefinition, slot_name: str, shape: TableShape
) -> Published:
    # Imported here: not every source needs a driver of PostgreSQL.
    from ledgerstone.pipeline.sources.postgres_slot import Slot

    slot = Slot(definition.location, slot_name, shape)
    total = Published()
    # The mark says that everything was compared once since the slot is there; a slot alone may be
    # one whose first comparison was interrupted.
    is_new = slot.make()
    if is_new or feed.shadow.mark("slot") != slot_name:
        with _snapshot(definition, shape) as snapshot:
            total = feed.publish(changes(shape, snapshot, feed.shadow))
        feed.shadow.set_mark("slot", slot_name)
        feed.shadow.save()
    moved_to = None
    while (peeked := slot.peek()).up_to_lsn is not None and peeked.up_to_lsn != moved_to:
        keys = list(peeked.changed.keys)
        with _snapshot(definition, shape) as snapshot:
            if peeked.changed.is_truncated:
                found = changes(shape, snapshot, feed.shadow)
            else:
                found = changes_of(shape, keys, snapshot, feed.shadow)
            published = feed.publish(found)
        total.written += published.written
        total.tombstones += published.tombstones
        moved_to = peeked.up_to_lsn
        slot.advance(moved_to)
    return total


@contextmanager
def _snapshot(definition: SourceDefinition, shape: TableShape) -> Iterator[TableSnapshot]:
    if definition.type is SourceType.SQLITE:
        from ledgerstone.pipeline.sources.sqlite_table import sqlite_snapshot

        with sqlite_snapshot(definition.location, shape) as found:
            yield found
    else:
        from ledgerstone.pipeline.sources.postgres_table import postgres_snapshot

        with postgres_snapshot(definition.location, shape) as opened:
            yield opened


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    work.mkdir(parents=True, exist_ok=True)
    lock = os.open(work / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"{work}: another run is in progress") from None
        yield
    finally:
        os.close(lock)
