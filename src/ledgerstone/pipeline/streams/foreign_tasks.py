"""What tasks do for a join by a foreign key: each row of the left side names a key of the right.

Shell. Three tables are the state. `left` says of each left key which foreign key it has now, by
left key. `subscriptions` has the left rows by foreign key, `right` the right values by key; both
fall into the same tasks. A change on the left is merged by its key first; what it means for the
rows of a foreign key is put down by that key, and a second step joins. A change on the right meets
all of its subscriptions there. So no step looks at rows that a change does not concern.
"""

from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.canonical import cells_of, whole
from ledgerstone.pipeline.layout import DELETED, OFFSET, PARTITION
from ledgerstone.pipeline.streams.join_tasks import (
    FOREIGN,
    PAIRS,
    RIGHT,
    ROW_KEY,
    ROW_VALUE,
    SeenValues,
    layout_with,
    merge_values,
    settled_changes,
    told_pairs,
)
from ledgerstone.pipeline.streams.state_shares import Share
from ledgerstone.pipeline.streams.state_tables import (
    PutDown,
    SlotFiles,
    SlotRows,
    SlotSink,
    StateTable,
    SwappedLeaves,
    hashes_of,
    rewritten,
    visited,
    write_outbox,
)
from ledgerstone.pipeline.tables.merging import merged
from ledgerstone.pipeline.tables.shards import HASH

_LEFT_LAYOUT: Final = layout_with(FOREIGN)
LEFT_KEYS: Final = StateTable(name="left", schema=_LEFT_LAYOUT.table_schema, by=(ROW_KEY,))
_ROWS: Final = pa.schema([(FOREIGN, pa.binary()), (ROW_KEY, pa.binary()), (ROW_VALUE, pa.binary())])
SUBSCRIPTIONS: Final = StateTable(name="subscriptions", schema=_ROWS, by=(FOREIGN,))
# `put` adds the row or replaces it; else it is removed. `tells` says that nobody else tells of the
# key when it is removed; `came` that the key had another foreign key before.
OPERATIONS: Final = pa.schema(
    [*_ROWS, ("put", pa.bool_()), ("tells", pa.bool_()), ("came", pa.bool_())]
)
_PAIR_ID: Final = (FOREIGN, ROW_KEY)


class LeftJob(NamedTuple):
    """Picklable."""

    changes: PutDown
    share: Share
    out: SlotFiles
    how: str  # inner or left


class LeftDone(NamedTuple):
    swapped: SwappedLeaves
    operations: SlotRows
    outbox: str | None


def merge_left(job: LeftJob) -> LeftDone:
    area = job.changes.files.area
    changes = settled_changes(job.changes, job.share)
    sink = SlotSink(job.out)
    alone: list[pa.Table] = [PAIRS.empty_table()]

    def merge(held: pa.Table, some: pa.Table) -> pa.Table:
        rows = merged(held, some, _LEFT_LAYOUT)
        moves = _moves(held, rows, some)
        operations = _operations(moves, job.how)
        sink.add(operations, hashes_of(operations, FOREIGN))
        if job.how == "left":
            alone.append(_without_foreign_key(moves))
        return rows

    hashes = hashes_of(changes, ROW_KEY)
    swapped = rewritten(area, LEFT_KEYS, job.share.branches[0], changes, hashes, merge)
    return LeftDone(swapped, sink.finish(), write_outbox(area, pa.concat_tables(alone)))


def _moves(held: pa.Table, rows: pa.Table, some: pa.Table) -> pa.Table:
    """Of each change that counts: the key, its value, its foreign key before and now, whether it
    was there before."""
    keys = whole(some.column(ROW_KEY))
    place = pc.index_in(keys, value_set=held.column(ROW_KEY))
    now = pc.index_in(keys, value_set=rows.column(ROW_KEY))
    origin = [ROW_KEY, PARTITION, OFFSET]
    is_put = pc.is_in(cells_of(some, origin), value_set=cells_of(rows, origin))
    is_put = pc.and_(is_put, pc.invert(some.column(DELETED)))
    is_gone = pc.and_(pc.and_(some.column(DELETED), place.is_valid()), now.is_null())
    found = pa.table(
        {
            ROW_KEY: keys,
            ROW_VALUE: pc.if_else(is_put, some.column(ROW_VALUE), None),
            "old": whole(held.column(FOREIGN)).take(place),
            "new": pc.if_else(is_put, some.column(FOREIGN), None),
            "was": place.is_valid(),
            "gone": is_gone,
        }
    )
    return found.filter(pc.or_(is_put, is_gone))


def _operations(moves: pa.Table, how: str) -> pa.Table:
    old, new = moves.column("old"), moves.column("new")
    differs = pc.fill_null(pc.not_equal(old, new), True)
    puts = moves.filter(new.is_valid())
    came = pc.and_(old.is_valid(), differs).filter(new.is_valid())
    added = _operation(puts, "new", put=True, tells=True).append_column("came", came)
    leaves = pc.and_(old.is_valid(), differs)
    removed = moves.filter(leaves)
    # A row that goes on under another foreign key, or without one in a left join, is told there.
    elsewhere = removed.column("new").is_valid()
    if how == "left":
        elsewhere = pc.invert(removed.column("gone"))
    out = _operation(removed, "old", put=False, tells=False)
    out = out.set_column(out.schema.get_field_index("tells"), "tells", pc.invert(elsewhere))
    out = out.append_column("came", pa.array([False] * out.num_rows, pa.bool_()))
    return pa.concat_tables(
        [each.select(OPERATIONS.names).cast(OPERATIONS) for each in (added, out)]
    )


def _operation(moves: pa.Table, foreign: str, *, put: bool, tells: bool) -> pa.Table:
    count = moves.num_rows
    value = moves.column(ROW_VALUE) if put else pa.nulls(count, pa.binary())
    return pa.table(
        {
            FOREIGN: moves.column(foreign),
            ROW_KEY: moves.column(ROW_KEY),
            ROW_VALUE: value,
            "put": pa.array([put] * count, pa.bool_()),
            "tells": pa.array([tells] * count, pa.bool_()),
        }
    )


def _without_foreign_key(moves: pa.Table) -> pa.Table:
    """Rows of a left join that no right key can change; they are told here."""
    stays = pc.and_(moves.column("new").is_null(), pc.invert(moves.column("gone")))
    goes = pc.and_(moves.column("gone"), moves.column("old").is_null())
    some = moves.filter(pc.or_(stays, goes))
    pairs = pa.table(
        {
            ROW_KEY: some.column(ROW_KEY),
            "left": some.column(ROW_VALUE),
            "right": pa.nulls(some.num_rows, pa.binary()),
            "deleted": some.column("gone"),
        }
    )
    return told_pairs(pairs)


class ForeignJob(NamedTuple):
    """Picklable."""

    operations: PutDown
    right: PutDown
    share: Share
    how: str


class ForeignDone(NamedTuple):
    subscriptions: SwappedLeaves
    right: SwappedLeaves
    outbox: str | None


def join_foreign(job: ForeignJob) -> ForeignDone:
    area = job.right.files.area
    operations = job.operations.files.read(job.operations.names, job.share.slots)
    operations = operations.drop_columns(HASH)
    right_changes = settled_changes(job.right, job.share)
    touched = whole(
        pc.unique(
            pa.chunked_array(
                [
                    *operations.column(FOREIGN).chunks,
                    *right_changes.column(ROW_KEY).chunks,
                ],
                pa.binary(),
            )
        )
    )
    near = hashes_of(pa.table({ROW_KEY: touched}), ROW_KEY)
    in_subscriptions, in_right = job.share.branches
    right = SeenValues(touched)
    right_swap = visited(area, RIGHT, in_right, near, right_changes, merge_values, right)
    values = pa.table({FOREIGN: touched, "old": right.values(0, touched)}).append_column(
        "new", right.values(1, touched)
    )
    rows: tuple[list[pa.Table], list[pa.Table]] = ([_ROWS.empty_table()], [_ROWS.empty_table()])

    def see(when: int, some: pa.Table) -> None:
        rows[when].append(some.filter(pc.is_in(some.column(FOREIGN), value_set=touched)))

    swapped = visited(
        area, SUBSCRIPTIONS, in_subscriptions, near, operations, _with_operations, see
    )
    before, after = (pa.concat_tables(each).combine_chunks() for each in rows)
    pairs = _pairs(before, after, operations, values, job.how)
    return ForeignDone(swapped, right_swap, write_outbox(area, pairs))


def _with_operations(held: pa.Table, operations: pa.Table) -> pa.Table:
    ids = cells_of(operations, _PAIR_ID) if operations.num_rows else pa.array([], pa.binary())
    left = held
    if held.num_rows and operations.num_rows:
        left = held.filter(pc.invert(pc.is_in(cells_of(held, _PAIR_ID), value_set=ids)))
    return pa.concat_tables([left, operations.filter(operations.column("put")).select(_ROWS.names)])


def _pairs(
    before: pa.Table, after: pa.Table, operations: pa.Table, values: pa.Table, how: str
) -> pa.Table:
    """What the join tells: rows that were put, rows whose right side changed, and rows that went
    and go on nowhere else."""
    old, new = values.column("old"), values.column("new")
    same = pc.or_(pc.fill_null(pc.equal(old, new), False), pc.and_(old.is_null(), new.is_null()))
    changed = whole(values.column(FOREIGN).filter(pc.invert(same)))
    had_right = whole(values.column(FOREIGN).filter(old.is_valid()))
    puts = operations.filter(operations.column("put"))
    removed = operations.filter(
        pc.and_(pc.invert(operations.column("put")), operations.column("tells"))
    )
    ids = _ids(after)
    told = after.filter(
        pc.or_(
            pc.is_in(after.column(FOREIGN), value_set=changed),
            pc.is_in(ids, value_set=_ids(puts)),
        )
    )
    place = pc.index_in(told.column(FOREIGN), value_set=values.column(FOREIGN))
    right = whole(new).take(whole(place))
    deleted = right.is_null() if how == "inner" else pa.array([False] * told.num_rows, pa.bool_())
    # A tombstone only where there may be something to take away.
    was_row = pc.and_(
        pc.is_in(_ids(told), value_set=_ids(before)),
        pc.is_in(told.column(FOREIGN), value_set=had_right),
    )
    came = pc.is_in(_ids(told), value_set=_ids(puts.filter(puts.column("came"))))
    wanted = pc.or_(pc.invert(deleted), pc.or_(was_row, came))
    pairs = pa.table(
        {
            ROW_KEY: told.column(ROW_KEY),
            "left": told.column(ROW_VALUE),
            "right": right,
            "deleted": deleted,
        }
    ).filter(wanted)
    if how == "inner":
        removed = removed.filter(pc.is_in(removed.column(FOREIGN), value_set=had_right))
    count = removed.num_rows
    gone = pa.table(
        {
            ROW_KEY: removed.column(ROW_KEY),
            "left": pa.nulls(count, pa.binary()),
            "right": pa.nulls(count, pa.binary()),
            "deleted": pa.array([True] * count, pa.bool_()),
        }
    )
    return pa.concat_tables([told_pairs(pairs), told_pairs(gone)])


def _ids(rows: pa.Table) -> pa.Array:
    return cells_of(rows, _PAIR_ID) if rows.num_rows else pa.array([], pa.binary())
