"""Compares a topic's latest records with a table's rows, key by key. Pure.

Only what the table should have applied is compared: a key whose latest record is at or after the
table's position is *pending*, whatever the table holds. docs/pipeline.md says what each comparison
can prove. Keys are independent, so both sides can be split by key and compared part by part;
`total` adds the parts up.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.canonical import cells_of, checksum
from ledgerstone.pipeline.changes import one_per_key, split_bad
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.layout import (
    DELETED,
    DELETED_AT,
    KEY,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    VALID_TO,
    VALUE,
    Layout,
)
from ledgerstone.pipeline.tables.target import Positions

_SHOWN: Final = 20
DIFFERENCES: Final = ("missing", "extra", "stale")
_COUNTS: Final = ("live", "deleted", *DIFFERENCES, "pending", "undecodable")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheck:
    """One partition: what the topic has below the table's position, and what the table has."""

    partition: int
    topic_rows: int
    table_rows: int
    topic_checksum: str
    table_checksum: str
    topic: str | None = None  # where a pipeline has several

    def plus(self, other: "PartitionCheck") -> "PartitionCheck":
        return PartitionCheck(
            partition=self.partition,
            topic_rows=self.topic_rows + other.topic_rows,
            table_rows=self.table_rows + other.table_rows,
            topic_checksum=_sum(self.topic_checksum, other.topic_checksum),
            table_checksum=_sum(self.table_checksum, other.table_checksum),
            topic=self.topic,
        )

    @property
    def is_equal(self) -> bool:
        return (self.topic_rows, self.topic_checksum) == (self.table_rows, self.table_checksum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found, of all keys or of a part of them."""

    exact: bool  # the checksum is over the records' own bytes: that of docs/state.md
    partitions: tuple[PartitionCheck, ...]
    live: int
    deleted: int  # tombstones in the topic that the table must have applied
    missing: int
    extra: int
    stale: int
    pending: int
    undecodable: int
    examples: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.extra or self.stale)


def compare(
    latest: pa.Table, rows: pa.Table, positions: Positions, layout: Layout, *, now_ms: int
) -> tuple[Comparison, pa.Table]:
    """`latest` are changes, the newest of each key of the topic, `rows` all of the table.

    Also returns the changes that would correct the table. `now_ms` is the time of deletes whose
    tombstone is gone."""
    good, bad = split_bad(latest)
    good = one_per_key(good, layout.key_names)
    is_due = _is_below(good, positions)
    due, pending = good.filter(is_due), good.filter(pc.invert(is_due))
    current = _current(rows, layout)
    # A row of a pending key may be old, new or missing: all of that is right for now.
    current = current.filter(_not_among(current, pending, layout))
    # A record that is bad leaves the row of its key as it was; what was before it is not known.
    current = current.filter(_not_among(current, bad, layout))
    live = due.filter(pc.invert(due.column(DELETED)))
    missing = live.filter(_not_among(live, current, layout))
    extra = current.filter(_not_among(current, live, layout))
    stale = _stale(live, current, layout)
    examples = [
        f"{what} {key}"
        for what, some in zip(DIFFERENCES, (missing, extra, stale), strict=True)
        for key in _shown_keys(some, layout)
    ]
    found = Comparison(
        exact=layout.keep_bytes,
        partitions=tuple(_by_partition(live, current, positions, layout)),
        live=live.num_rows,
        deleted=due.num_rows - live.num_rows,
        missing=missing.num_rows,
        extra=extra.num_rows,
        stale=stale.num_rows,
        pending=pending.num_rows,
        undecodable=bad.num_rows,
        examples=tuple(examples),
    )
    return found, pa.concat_tables([missing, stale, _as_deletes(extra, due, layout, now_ms)])


def total(parts: Iterable[Comparison], layout: Layout) -> Comparison:
    """Of parts that share no key: counts and checksums are sums."""
    sums = dict.fromkeys(_COUNTS, 0)
    partitions: dict[tuple[str, int], PartitionCheck] = {}
    examples: dict[str, list[str]] = {what: [] for what in DIFFERENCES}
    for part in parts:
        for name in _COUNTS:
            sums[name] += getattr(part, name)
        for each in part.partitions:
            place = (each.topic or "", each.partition)
            known = partitions.get(place)
            partitions[place] = each if known is None else known.plus(each)
        for text in part.examples:
            some = examples[text.partition(" ")[0]]
            if len(some) < _SHOWN:
                some.append(text)
    return Comparison(
        exact=layout.keep_bytes,
        partitions=tuple(partitions[each] for each in sorted(partitions)),
        examples=tuple(text for some in examples.values() for text in some),
        **sums,
    )


def _sum(one: str, other: str) -> str:
    return f"{(int(one, 16) + int(other, 16)) % (1 << 128):032x}"


def _is_below(changes: pa.Table, positions: Positions) -> pa.Array:
    place = pc.index_in(changes.column(PARTITION), value_set=pa.array(list(positions), pa.int32()))
    ends = pc.take(pa.array(list(positions.values()), pa.int64()), place)
    return pc.less(changes.column(OFFSET), pc.fill_null(ends, 0))


def _current(rows: pa.Table, layout: Layout) -> pa.Table:
    """Rows that claim to be live."""
    if layout.deletes is Deletes.HARD:
        return rows
    mark = DELETED_AT if layout.deletes is Deletes.SOFT else VALID_TO
    return rows.filter(rows.column(mark).is_null())


def _not_among(of: pa.Table, others: pa.Table, layout: Layout) -> pa.Array:
    keys = layout.key_names
    return pc.invert(pc.is_in(cells_of(of, keys), value_set=cells_of(others, keys)))


def _stale(live: pa.Table, current: pa.Table, layout: Layout) -> pa.Table:
    """Keys on both sides whose rows differ: another offset, or other content."""
    keys, all_names = layout.key_names, [*layout.key_names, *layout.content_names]
    known = pc.is_in(cells_of(live, keys), value_set=cells_of(current, keys))
    both = live.filter(known)
    same = pc.is_in(cells_of(both, all_names), value_set=cells_of(current, all_names))
    return both.filter(pc.invert(same))


def _by_partition(
    live: pa.Table, current: pa.Table, positions: Positions, layout: Layout
) -> Iterable[PartitionCheck]:
    for partition in sorted(positions):
        sides = [
            side.filter(pc.equal(side.column(PARTITION), partition)) for side in (live, current)
        ]
        sums = [f"{checksum(*_pairs(side, layout)):032x}" for side in sides]
        yield PartitionCheck(
            partition=partition,
            topic_rows=sides[0].num_rows,
            table_rows=sides[1].num_rows,
            topic_checksum=sums[0],
            table_checksum=sums[1],
        )


def _pairs(side: pa.Table, layout: Layout) -> tuple[pa.Array, pa.Array]:
    """The records' own bytes where the table has them, else what was made of them."""
    if layout.keep_bytes:
        return cells_of(side, [KEY]), cells_of(side, [VALUE])
    values = [each.name for each in layout.values]
    return cells_of(side, layout.key_names), pc.fill_null(cells_of(side, values), b"")


def _shown_keys(some: pa.Table, layout: Layout) -> list[str]:
    shown = some.slice(0, _SHOWN).select([*layout.key_names, PARTITION, OFFSET]).to_pylist()
    return [
        f"{', '.join(f'{n}={row[n]!r}' for n in layout.key_names)} "
        f"(partition {row[PARTITION]}, offset {row[OFFSET]})"
        for row in shown
    ]


def _as_deletes(extra: pa.Table, due: pa.Table, layout: Layout, now_ms: int) -> pa.Table:
    """Changes that delete these rows; by the tombstone, where the topic still has it."""
    schema = due.schema
    keys = layout.key_names
    place = pc.index_in(cells_of(extra, keys), value_set=cells_of(due, keys))
    known = place.is_valid()
    forgotten = extra.filter(pc.invert(known))
    count = forgotten.num_rows
    arrays = {name: pa.nulls(count, schema.field(name).type) for name in schema.names}
    arrays |= {name: forgotten.column(name) for name in (*keys, PARTITION)}
    # Behind the row it ends: that much is known about where the tombstone was.
    arrays[OFFSET] = pc.add(forgotten.column(OFFSET), 1)
    arrays[TIMESTAMP] = pa.array([now_ms * 1000] * count, schema.field(TIMESTAMP).type)
    arrays[DELETED] = pa.array([True] * count, pa.bool_())
    return pa.concat_tables([due.take(place.filter(known)), pa.table(arrays, schema=schema)])
