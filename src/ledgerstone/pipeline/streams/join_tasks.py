"""What tasks do for a join of two tables by key: merge both sides, and show both values. Shell.

The state has the values of both sides, by key. For each key that changed on either side, both
values go to the outbox, if the join has a row for it; a key whose row is gone becomes a tombstone.
Spark reads the outbox and makes the result's value of the two.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.canonical import whole
from ledgerstone.pipeline.column_types import ColumnType
from ledgerstone.pipeline.definition import Column, Deletes
from ledgerstone.pipeline.layout import (
    BAD,
    DELETED,
    KEY,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    VALUE,
    Layout,
)
from ledgerstone.pipeline.streams.staging import Columns
from ledgerstone.pipeline.streams.state_shares import Share
from ledgerstone.pipeline.streams.state_tables import (
    PutDown,
    SlotFiles,
    SlotSink,
    StateTable,
    SwappedLeaves,
    hashes_of,
    visited,
    write_outbox,
)
from ledgerstone.pipeline.tables.group_merging import settled
from ledgerstone.pipeline.tables.merging import merged
from ledgerstone.pipeline.tables.shards import HASH

ROW_KEY: Final = "key"
ROW_VALUE: Final = "value"
FOREIGN: Final = "fk"
# What is told: both values of a key, or that its row is gone.
PAIRS: Final = pa.schema(
    [
        (ROW_KEY, pa.binary()),
        ("left", pa.binary()),
        ("right", pa.binary()),
        ("deleted", pa.bool_()),
    ]
)


def layout_with(*names: str) -> Layout:
    values = tuple(Column(name=each, type=ColumnType.BINARY, path=()) for each in names)
    key = Column(name=ROW_KEY, type=ColumnType.BINARY, path=())
    return Layout(keys=(key,), values=values, deletes=Deletes.HARD, keep_bytes=False)


# Of changes on their way; only a side with a foreign key fills the second column.
CHANGES: Final = layout_with(ROW_VALUE, FOREIGN)
VALUED: Final = layout_with(ROW_VALUE)
LEFT: Final = StateTable(name="left", schema=VALUED.table_schema, by=(ROW_KEY,))
RIGHT: Final = StateTable(name="right", schema=VALUED.table_schema, by=(ROW_KEY,))


class SideStager:
    """Picklable. Puts the rows of a micro-batch down by key, those of each side on their own."""

    def __init__(self, left: SlotFiles, right: SlotFiles) -> None:
        self.places = (left, right)

    def add(self, batch: Columns, sinks: Sequence[SlotSink]) -> None:
        for side, sink in enumerate(sinks):
            mine = pc.equal(batch[0], side)
            if pc.any(mine).as_py():
                changes = side_changes(*(each.filter(mine) for each in batch[1:]))
                sink.add(changes, hashes_of(changes, ROW_KEY))


def side_changes(
    key: pa.Array,
    value: pa.Array,
    foreign: pa.Array,
    partition: pa.Array,
    offset: pa.Array,
    written_us: pa.Array,
    is_read: pa.Array,
) -> pa.Table:
    """`is_read` is there to have every value read; a bad one stops the query."""
    del is_read
    found = {
        ROW_KEY: key,
        ROW_VALUE: value,
        FOREIGN: foreign,
        PARTITION: partition,
        OFFSET: offset,
        TIMESTAMP: written_us.cast(pa.timestamp("us", tz="UTC")),
        DELETED: value.is_null(),
    }
    for name, kind in ((KEY, pa.binary()), (VALUE, pa.binary()), (BAD, pa.string())):
        found[name] = pa.nulls(len(key), kind)
    schema = CHANGES.change_schema
    return pa.table(found).select(schema.names).cast(schema)


class JoinJob(NamedTuple):
    """Picklable."""

    left: PutDown
    right: PutDown
    share: Share
    how: str  # inner, left or full


class JoinDone(NamedTuple):
    left: SwappedLeaves
    right: SwappedLeaves
    outbox: str | None


class SeenValues:
    """The values of touched keys, before and after."""

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys
        self._seen: tuple[list[pa.Table], list[pa.Table]] = ([], [])

    def __call__(self, when: int, rows: pa.Table) -> None:
        mine = pc.is_in(rows.column(ROW_KEY), value_set=self._keys)
        self._seen[when].append(rows.filter(mine).select([ROW_KEY, ROW_VALUE]))

    def values(self, when: int, keys: pa.Array) -> pa.Array:
        """Null where a key is not there."""
        empty = VALUED.table_schema.empty_table().select([ROW_KEY, ROW_VALUE])
        rows = pa.concat_tables([empty, *self._seen[when]]).combine_chunks()
        place = pc.index_in(keys, value_set=rows.column(ROW_KEY))
        return whole(rows.column(ROW_VALUE)).take(place)


def join_sides(job: JoinJob) -> JoinDone:
    area = job.left.files.area
    sides = [settled_changes(each, job.share) for each in (job.left, job.right)]
    touched = whole(pc.unique(pa.concat_tables(sides).column(ROW_KEY)))
    near = hashes_of(pa.table({ROW_KEY: touched}), ROW_KEY)
    seen = (SeenValues(touched), SeenValues(touched))
    left, right = (
        visited(area, table, branches, near, changes, merge_values, see)
        for table, branches, changes, see in zip(
            (LEFT, RIGHT), job.share.branches, sides, seen, strict=True
        )
    )
    before, after = (
        pa.table({ROW_KEY: touched, "left": seen[0].values(at, touched)}).append_column(
            "right", seen[1].values(at, touched)
        )
        for at in (0, 1)
    )
    return JoinDone(left, right, write_outbox(area, _changed_pairs(before, after, job.how)))


def merge_values(held: pa.Table, changes: pa.Table) -> pa.Table:
    return merged(held, changes, VALUED)


def settled_changes(changes: PutDown, share: Share) -> pa.Table:
    """One change per key."""
    found = changes.files.read(changes.names, share.slots)
    return settled(found, CHANGES).drop_columns(HASH)


def _changed_pairs(before: pa.Table, after: pa.Table, how: str) -> pa.Table:
    had, has = _has_row(before, how), _has_row(after, how)
    same = pc.and_(had, has)
    for name in ("left", "right"):
        old, new = before.column(name), after.column(name)
        equal = pc.fill_null(pc.equal(old, new), False)
        same = pc.and_(same, pc.or_(equal, pc.and_(old.is_null(), new.is_null())))
    told = pc.and_(pc.or_(had, has), pc.invert(same))
    pairs = after.append_column("deleted", pc.invert(has)).filter(told)
    return told_pairs(pairs)


def told_pairs(pairs: pa.Table) -> pa.Table:
    """What is gone has no values; they would only be kept longer."""
    gone = pairs.column("deleted")
    for name in ("left", "right"):
        at = pairs.schema.get_field_index(name)
        pairs = pairs.set_column(at, name, pc.if_else(gone, None, pairs.column(name)))
    return pairs.select(PAIRS.names).cast(PAIRS)


def _has_row(pairs: pa.Table, how: str) -> pa.ChunkedArray:
    left, right = pairs.column("left").is_valid(), pairs.column("right").is_valid()
    return {"inner": pc.and_(left, right), "left": left, "full": pc.or_(left, right)}[how]
