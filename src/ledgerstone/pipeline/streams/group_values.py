"""The distinct values of groups, for `min` and `max`: what a deleted row can be taken out of. Pure.

`values` has each value of a group with the number of rows that have it, spread over files by all
three of group, aggregate and value, so a group of a million values is in many files. `extremes`
has the least and the greatest value that a group has in each of these files. So a change rewrites
the one file that has its value, and the few rows of its group that say where the ends are.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.canonical import cells_of

GROUP: Final = "grp"
VALUES_SCHEMA: Final = pa.schema(
    [(GROUP, pa.string()), ("at", pa.int32()), ("value", pa.binary()), ("count", pa.int64())]
)
VALUE_ID: Final = (GROUP, "at", "value")
# A change of it without values takes the row away.
EXTREMES_SCHEMA: Final = pa.schema(
    [
        (GROUP, pa.string()),
        ("at", pa.int32()),
        ("leaf", pa.int32()),
        ("least", pa.binary()),
        ("greatest", pa.binary()),
    ]
)
_EXTREME_ID: Final = (GROUP, "at", "leaf")

Extremes = Mapping[tuple[str, int], tuple[bytes, bytes]]  # of a group and an aggregate


def multiset(values: pa.Table) -> pa.Table:
    """One row for each value, without those that no row has any more."""
    grouped = values.group_by(list(VALUE_ID), use_threads=False)
    added = grouped.aggregate([("count", "sum")]).rename_columns(VALUES_SCHEMA.names)
    return added.filter(pc.not_equal(added.column("count"), 0)).cast(VALUES_SCHEMA)


def with_values(held: pa.Table, deltas: pa.Table) -> pa.Table:
    """Only the rows of values that change are grouped again."""
    near = pc.and_(
        pc.is_in(held.column("value"), value_set=pc.unique(deltas.column("value"))),
        pc.is_in(held.column(GROUP), value_set=pc.unique(deltas.column(GROUP))),
    )
    changed = multiset(pa.concat_tables([held.filter(near), deltas]))
    return pa.concat_tables([held.filter(pc.invert(near)), changed])


def extremes_in(leaf: int, values: pa.Table, groups: pa.Array | None = None) -> pa.Table:
    """The ends of each group in one file, of these groups or of all."""
    if groups is not None:
        values = values.filter(pc.is_in(values.column(GROUP), value_set=groups))
    grouped = values.group_by([GROUP, "at"], use_threads=False)
    found = grouped.aggregate([("value", "min"), ("value", "max")])
    return pa.table(
        {
            GROUP: found.column(GROUP),
            "at": found.column("at"),
            "leaf": pa.array([leaf] * found.num_rows, pa.int32()),
            "least": found.column("value_min"),
            "greatest": found.column("value_max"),
        }
    ).cast(EXTREMES_SCHEMA)


def extremes_gone(leaf: int, values: pa.Table, groups: pa.Array | None = None) -> pa.Table:
    """The same for a file that has no such rows any more, or has others now."""
    found = extremes_in(leaf, values, groups)
    for name in ("least", "greatest"):
        at = found.schema.get_field_index(name)
        found = found.set_column(at, name, pa.nulls(found.num_rows, pa.binary()))
    return found


def with_extremes(held: pa.Table, changes: pa.Table) -> pa.Table:
    """A row that is set counts, also if another change takes it away: it was set after that."""
    if not changes.num_rows:
        return held
    if held.num_rows:
        changed = cells_of(changes, _EXTREME_ID)
        held = held.filter(pc.invert(pc.is_in(cells_of(held, _EXTREME_ID), value_set=changed)))
    return pa.concat_tables([held, changes.filter(changes.column("least").is_valid())])


def ends_of(extremes: pa.Table, groups: Iterable[str] | pa.Array | None = None) -> Extremes:
    """The least and the greatest value of each group, of these groups or of all."""
    if groups is not None:
        extremes = extremes.filter(pc.is_in(extremes.column(GROUP), value_set=groups))
    grouped = extremes.group_by([GROUP, "at"], use_threads=False)
    found = grouped.aggregate([("least", "min"), ("greatest", "max")])
    return {
        (row[GROUP], row["at"]): (row["least_min"], row["greatest_max"])
        for row in found.to_pylist()
    }
