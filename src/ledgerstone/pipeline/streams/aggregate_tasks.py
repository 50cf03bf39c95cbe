"""What tasks do for an aggregate: stage changes, merge keys, add to groups. Shell.

Each runs wherever `Executors` sends it, reads what the step before has put down, and returns names
and counts.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.layout import (
    BAD,
    DELETED,
    KEY,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    VALUE,
)
from ledgerstone.pipeline.streams import totals as columns
from ledgerstone.pipeline.streams.staging import told_at_last
from ledgerstone.pipeline.streams.state_shares import Share
from ledgerstone.pipeline.streams.state_tables import (
    RECORDS,
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
from ledgerstone.pipeline.streams.totals import (
    GROUP,
    VALUES_SCHEMA,
    Extremes,
    GroupSums,
    GroupTotals,
    extremes_of,
    group_texts,
    measure_column,
    split_deltas,
    with_deltas,
    with_values,
)
from ledgerstone.pipeline.tables.group_merging import settled
from ledgerstone.pipeline.tables.merging import merged
from ledgerstone.pipeline.tables.shards import HASH


def keys_table(totals: GroupTotals) -> StateTable:
    return StateTable(name="keys", schema=totals.layout.table_schema, by=columns.KEY)


def groups_table(totals: GroupTotals) -> StateTable:
    return StateTable(name="groups", schema=totals.group_schema, by=GROUP)


VALUES = StateTable(name="values", schema=VALUES_SCHEMA, by=GROUP)


class ChangeStager:
    """Picklable. Puts the rows of one partition of a micro-batch down by key.

    `stage` is an Arrow function of Spark (`staging`)."""

    def __init__(self, totals: GroupTotals, files: SlotFiles) -> None:
        self._totals = totals
        self._files = files

    def stage(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        sink = SlotSink(self._files)

        def add(batch: tuple[pa.Array, ...]) -> None:
            changes = self.changes(batch)
            sink.add(changes, hashes_of(changes, columns.KEY))

        return told_at_last(batches, add, lambda: [sink.finish()])

    def changes(self, batch: tuple[pa.Array, ...]) -> pa.Table:
        """`batch` has the columns of `aggregating.needed_columns`."""
        key, partition, offset, written_us, deleted, *rest = batch
        by, measures = rest[: len(self._totals.by)], rest[len(self._totals.by) :]
        found = {
            columns.KEY: key,
            GROUP: group_texts(by),
            PARTITION: partition,
            OFFSET: offset,
            TIMESTAMP: written_us.cast(pa.timestamp("us", tz="UTC")),
            DELETED: deleted,
        }
        for at, (each, array) in enumerate(zip(self._totals.measured, measures, strict=True)):
            if not each.counts_rows:
                found[f"m{at}"] = measure_column(array, each)
        for name, kind in ((KEY, pa.binary()), (VALUE, pa.binary()), (BAD, pa.string())):
            found[name] = pa.nulls(len(key), kind)
        schema = self._totals.layout.change_schema
        return pa.table(found).select(schema.names).cast(schema)


class KeysJob(NamedTuple):
    """Picklable."""

    totals: GroupTotals
    changes: PutDown
    share: Share
    out: SlotFiles


class KeysDone(NamedTuple):
    swapped: SwappedLeaves
    deltas: SlotRows


def merge_keys(job: KeysJob) -> KeysDone:
    """Changes into `keys`; what their groups gain and lose is put down by group."""
    layout, place = job.totals.layout, job.changes.files
    changes = settled(place.read(job.changes.names, job.share.slots), layout)
    hashes = changes.column(HASH).to_numpy()
    sink = SlotSink(job.out)

    def merge(held: pa.Table, some: pa.Table) -> pa.Table:
        rows = merged(held, some, layout)
        changed = some.column(columns.KEY).combine_chunks()
        before, after = (
            table.filter(pc.is_in(table.column(columns.KEY), value_set=changed))
            for table in (held, rows)
        )
        deltas = job.totals.deltas(before, after)
        sink.add(deltas, hashes_of(deltas, GROUP))
        return rows

    swapped = rewritten(
        place.area,
        keys_table(job.totals),
        job.share.branches[0],
        changes.drop_columns(HASH),
        hashes,
        merge,
    )
    return KeysDone(swapped, sink.finish())


class GroupsJob(NamedTuple):
    """Picklable. Without deltas, every group of the share is told."""

    totals: GroupTotals
    deltas: PutDown
    share: Share
    tells_all: bool = False


class GroupsDone(NamedTuple):
    groups: SwappedLeaves
    values: SwappedLeaves
    outbox: str | None


class _Results:
    """Of the groups that a task has seen, before and after."""

    def __init__(self, totals: GroupTotals) -> None:
        self.totals = totals
        self.sums: tuple[dict[str, GroupSums], dict[str, GroupSums]] = ({}, {})
        self.extremes: tuple[dict[tuple[str, int], tuple[bytes, bytes]], ...] = ({}, {})

    def see_sums(self, when: int, rows: pa.Table, groups: pa.Array | None = None) -> None:
        if groups is not None:
            rows = rows.filter(pc.is_in(rows.column(GROUP), value_set=groups))
        self.sums[when].update(self.totals.sums_of(rows))

    def see_values(self, when: int, rows: pa.Table, groups: pa.Array | None = None) -> None:
        found: Extremes = extremes_of(rows, groups)
        self.extremes[when].update(found)

    def records(self) -> pa.Table:
        """Of the groups whose result has changed."""
        before, after = self.sums
        told = []
        for group in sorted({*before, *after}):
            old = self.totals.record(group, before.get(group), self.extremes[0])
            new = self.totals.record(group, after.get(group), self.extremes[1])
            if old != new:
                told.append(new)
        keys, values = zip(*told, strict=True) if told else ((), ())
        arrays = [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
        return pa.Table.from_arrays(arrays, schema=RECORDS)


def add_to_groups(job: GroupsJob) -> GroupsDone:
    totals, place = job.totals, job.deltas.files
    results = _Results(totals)
    if job.tells_all:
        for branch in job.share.branches[0]:
            results.see_sums(1, groups_table(totals).read(place.area, branch))
        for branch in job.share.branches[1]:
            results.see_values(1, VALUES.read(place.area, branch))
        outbox = write_outbox(place.area, results.records())
        return GroupsDone(SwappedLeaves(), SwappedLeaves(), outbox)
    deltas = place.read(job.deltas.names, job.share.slots).drop_columns(HASH)
    sums, values = split_deltas(deltas)
    touched = pc.unique(sums.column(GROUP))

    def seen_sums(when: int, rows: pa.Table) -> None:
        results.see_sums(when, rows, touched)

    def seen_values(when: int, rows: pa.Table) -> None:
        results.see_values(when, rows, touched)

    def merge_sums(rows: pa.Table, some: pa.Table) -> pa.Table:
        return with_deltas(totals, rows, some)

    near, (in_groups, in_values) = hashes_of(pa.table({GROUP: touched}), GROUP), job.share.branches
    table = groups_table(totals)
    group_swap = visited(place.area, table, in_groups, near, sums, merge_sums, seen_sums)
    value_swap = SwappedLeaves()
    if totals.has_values:
        # The values of every group that is told are read, also where none of them changes.
        value_swap = visited(place.area, VALUES, in_values, near, values, with_values, seen_values)
    return GroupsDone(group_swap, value_swap, write_outbox(place.area, results.records()))
