"""Versions out of changes: each is valid until the next record of its key. Pure.

The timeline is that of a key in a partition, in the order of offsets. Times are those of the
records, so a producer whose clock goes backwards makes a version that ends before it begins.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.canonical import cells_of
from ledgerstone.pipeline.layout import (
    DELETED,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    VALID_TO,
    Layout,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersions:
    """`new` are rows of the table; `closed` says which open rows end, and when.

    A row of `closed` has the key, the partition, and offset and time of the first change."""

    new: pa.Table
    closed: pa.Table


def versions_of(changes: pa.Table, layout: Layout) -> RowVersions:
    cells = cells_of(changes, layout.key_names)
    order = pa.table(
        {"cell": cells, "partition": changes.column(PARTITION), "offset": changes.column(OFFSET)}
    )
    by_timeline = [(name, "ascending") for name in order.column_names]
    rows = pc.sort_indices(order, sort_keys=by_timeline)
    sorted_changes, order = changes.take(rows), order.take(rows)
    has_next = _same_as_next(order)
    timestamps = sorted_changes.column(TIMESTAMP).combine_chunks()
    following = pa.array(np.minimum(np.arange(len(has_next)) + 1, max(len(has_next) - 1, 0)))
    valid_to = pc.if_else(pa.array(has_next), timestamps.take(following), None)
    is_first = np.ones(len(has_next), np.bool_)
    is_first[1:] = ~has_next[:-1]
    with_end = sorted_changes.append_column(VALID_TO, valid_to)
    new = with_end.filter(pc.invert(sorted_changes.column(DELETED)))
    closed_names = [*layout.key_names, PARTITION, OFFSET, TIMESTAMP]
    return RowVersions(
        new=new.select(layout.table_schema.names).cast(layout.table_schema),
        closed=sorted_changes.filter(pa.array(is_first)).select(closed_names),
    )


def _same_as_next(order: pa.Table) -> NDArray[np.bool_]:
    """Whether the next row is of the same key and partition."""
    same = np.zeros(order.num_rows, np.bool_)
    if order.num_rows > 1:
        columns = [order.column(name).combine_chunks() for name in ("cell", "partition")]
        equal = pc.and_(*(pc.equal(column[:-1], column[1:]) for column in columns))
        same[:-1] = equal.to_numpy(zero_copy_only=False)
    return same
