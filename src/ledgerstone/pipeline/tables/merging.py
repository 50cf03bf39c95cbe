"""Changes into rows, both in memory: what the targets that are made of files do. Pure.

The databases do the same in SQL; the tests compare them with this.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledgerstone.pipeline.canonical import cell_hashes, cells_of
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.layout import (
    DELETED,
    DELETED_AT,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    VALID_TO,
    Layout,
)
from ledgerstone.pipeline.tables.history import versions_of


def merged(rows: pa.Table, changes: pa.Table, layout: Layout, *, forced: bool = False) -> pa.Table:
    """The rows after the changes, of which no two have the same key, unless it is a history.

    Stale changes are left out; `forced` ones win whatever their offset."""
    if layout.deletes is Deletes.HISTORY:
        return _with_versions(rows, changes, layout)
    if not rows.num_rows:
        place = pa.nulls(changes.num_rows, pa.int32())
    else:
        cells, old_cells = cells_of(changes, layout.key_names), cells_of(rows, layout.key_names)
        place = pc.index_in(cells, value_set=old_cells)
    if not forced and place.null_count < len(place):
        fresh = pc.fill_null(_is_newer(changes, rows.take(place)), True)
        changes, place = changes.filter(fresh), place.filter(fresh)
    deletes = changes.column(DELETED)
    stays = np.ones(rows.num_rows, np.bool_)
    stays[place.drop_null().to_numpy(zero_copy_only=False)] = False
    left = rows if stays.all() else rows.filter(pa.array(stays))
    upserts = _as_rows(changes.filter(pc.invert(deletes)), layout)
    if layout.deletes is Deletes.HARD:
        return pa.concat_tables([left, upserts])
    ended = _ended(rows, changes.filter(deletes), place.filter(deletes), layout)
    return pa.concat_tables([left, upserts, ended])


def _is_newer(changes: pa.Table, rows: pa.Table) -> pa.Array:
    """Per change, whether it comes after the row beside it; null where there is none."""
    same = pc.equal(changes.column(PARTITION), rows.column(PARTITION))
    later = pc.greater(changes.column(OFFSET), rows.column(OFFSET))
    times, old_times = changes.column(TIMESTAMP), rows.column(TIMESTAMP)
    tie = pc.and_(
        pc.equal(times, old_times), pc.greater(changes.column(PARTITION), rows.column(PARTITION))
    )
    return pc.if_else(same, later, pc.or_(pc.greater(times, old_times), tie))


def _as_rows(upserts: pa.Table, layout: Layout) -> pa.Table:
    if layout.deletes is Deletes.SOFT:
        nothing = pa.nulls(upserts.num_rows, upserts.schema.field(TIMESTAMP).type)
        upserts = upserts.append_column(DELETED_AT, nothing)
    return upserts.select(layout.table_schema.names).cast(layout.table_schema)


def _ended(rows: pa.Table, deletes: pa.Table, place: pa.Array, layout: Layout) -> pa.Table:
    """Rows that are deleted softly: they keep their content, and say when and by which record.

    A key that had no row gets one without content: that it was deleted is known all the same.
    `place` says which row each delete is of."""
    known = place.is_valid()
    old, by = rows.take(place.filter(known)), deletes.filter(known)
    unknown = deletes.filter(pc.invert(known))
    unknown = unknown.append_column(DELETED_AT, unknown.column(TIMESTAMP))
    said: Mapping[str, str] = {
        PARTITION: PARTITION,
        OFFSET: OFFSET,
        TIMESTAMP: TIMESTAMP,
        DELETED_AT: TIMESTAMP,
    }
    for name, source in said.items():
        old = old.set_column(old.schema.get_field_index(name), name, by.column(source))
    schema = layout.table_schema
    return pa.concat_tables([old.cast(schema), unknown.select(schema.names).cast(schema)])


def _with_versions(rows: pa.Table, changes: pa.Table, layout: Layout) -> pa.Table:
    versions = versions_of(changes, layout)
    timeline = [*layout.key_names, PARTITION]
    place = pc.index_in(cells_of(rows, timeline), value_set=cells_of(versions.closed, timeline))
    by = versions.closed.take(place)
    ends = pc.and_(
        rows.column(VALID_TO).is_null(),
        pc.fill_null(pc.less(rows.column(OFFSET), by.column(OFFSET)), False),
    )
    valid_to = pc.if_else(ends, by.column(TIMESTAMP), rows.column(VALID_TO))
    at = rows.schema.get_field_index(VALID_TO)
    closed = rows.set_column(at, VALID_TO, valid_to).cast(layout.table_schema)
    identity = layout.row_identity
    is_known = pc.is_in(cells_of(versions.new, identity), value_set=cells_of(closed, identity))
    return pa.concat_tables([closed, versions.new.filter(pc.invert(is_known))])


def key_hashes(table: pa.Table, layout: Layout) -> NDArray[np.uint64]:
    """Of each row, by its key alone."""
    return cell_hashes(cells_of(table, layout.key_names))


def bucket_numbers(table: pa.Table, layout: Layout, buckets: int) -> pa.Array:
    """Which of `buckets` parts each row belongs to."""
    return pa.array(key_hashes(table, layout) % np.uint64(buckets)).cast(pa.int32())
