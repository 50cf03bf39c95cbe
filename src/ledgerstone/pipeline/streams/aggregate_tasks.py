"""What tasks do for an aggregate: stage changes, merge keys, add to groups. Shell.

Each runs wherever `Executors` sends it, reads what the step before has put down, and returns names
and counts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
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
from ledgerstone.pipeline.streams.group_values import (
    GROUP,
    VALUE_ID,
    ends_of,
    with_extremes,
)
from ledgerstone.pipeline.streams.staging import Columns
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
from ledgerstone.pipeline.streams.time_windows import TIME
from ledgerstone.pipeline.streams.totals import (
    GroupSums,
    GroupTotals,
    group_texts,
    measure_column,
    with_deltas,
)
from ledgerstone.pipeline.streams.value_tasks import EXTREMES
from ledgerstone.pipeline.tables.group_merging import settled
from ledgerstone.pipeline.tables.merging import merged
from ledgerstone.pipeline.tables.shards import HASH


def keys_table(totals: GroupTotals) -> StateTable:
    return StateTable(name="keys", schema=totals.layout.table_schema, by=(columns.KEY,))


def groups_table(totals: GroupTotals) -> StateTable:
    return StateTable(name="groups", schema=totals.group_schema, by=(GROUP,))


class ChangeStager:
    """Picklable. Puts the rows of a micro-batch down by key."""

    def __init__(self, totals: GroupTotals, files: SlotFiles) -> None:
        self._totals = totals
        self.places = (files,)

    def add(self, batch: Columns, sinks: Sequence[SlotSink]) -> None:
        changes = self.changes(batch)
        sinks[0].add(changes, hashes_of(changes, columns.KEY))

    def changes(self, batch: Columns) -> pa.Table:
        """`batch` has the columns of `aggregating.needed_columns`."""
        key, partition, offset, written_us, deleted, time_us, *rest = batch
        by, measures = rest[: len(self._totals.by)], rest[len(self._totals.by) :]
        found = {
            columns.KEY: key,
            GROUP: group_texts(by, len(key)),
            PARTITION: partition,
            OFFSET: offset,
            TIMESTAMP: written_us.cast(pa.timestamp("us", tz="UTC")),
            DELETED: deleted,
            TIME: time_us,
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
    sums: SlotFiles  # where deltas go
    values: SlotFiles


class KeysDone(NamedTuple):
    swapped: SwappedLeaves
    sums: SlotRows
    values: SlotRows


def merge_keys(job: KeysJob) -> KeysDone:
    """Changes into `keys`; what their groups gain and lose is put down by group."""
    layout, place = job.totals.layout, job.changes.files
    changes = settled(place.read(job.changes.names, job.share.slots), layout)
    hashes = changes.column(HASH).to_numpy()
    sums, values = SlotSink(job.sums), SlotSink(job.values)

    def merge(held: pa.Table, some: pa.Table) -> pa.Table:
        rows = merged(held, some, layout)
        changed = some.column(columns.KEY).combine_chunks()
        before, after = (
            table.filter(pc.is_in(table.column(columns.KEY), value_set=changed))
            for table in (held, rows)
        )
        for gained, counted in job.totals.deltas(before, after):
            sums.add(gained, hashes_of(gained, GROUP))
            values.add(counted, hashes_of(counted, *VALUE_ID))
        return rows

    swapped = rewritten(
        place.area,
        keys_table(job.totals),
        job.share.branches[0],
        changes.drop_columns(HASH),
        hashes,
        merge,
    )
    return KeysDone(swapped, sums.finish(), values.finish())


class GroupsJob(NamedTuple):
    """Picklable. Without deltas, every group of the share is told."""

    totals: GroupTotals
    sums: PutDown
    extremes: PutDown
    share: Share
    tells_all: bool = False


class GroupsDone(NamedTuple):
    groups: SwappedLeaves
    extremes: SwappedLeaves
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

    def see_extremes(self, when: int, rows: pa.Table, groups: pa.Array | None = None) -> None:
        self.extremes[when].update(ends_of(rows, groups))

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
    totals, area = job.totals, job.sums.files.area
    table, results = groups_table(totals), _Results(totals)
    in_groups, in_extremes = job.share.branches
    if job.tells_all:
        for branch in in_groups:
            results.see_sums(1, table.read(area, branch))
        for branch in in_extremes:
            results.see_extremes(1, EXTREMES.read(area, branch))
        return GroupsDone(SwappedLeaves(), SwappedLeaves(), write_outbox(area, results.records()))
    sums, extremes = (
        each.files.read(each.names, job.share.slots).drop_columns(HASH)
        for each in (job.sums, job.extremes)
    )
    touched = pc.unique(sums.column(GROUP))

    def seen_sums(when: int, rows: pa.Table) -> None:
        results.see_sums(when, rows, touched)

    def seen_extremes(when: int, rows: pa.Table) -> None:
        results.see_extremes(when, rows, touched)

    def merge_sums(rows: pa.Table, some: pa.Table) -> pa.Table:
        return with_deltas(totals, rows, some)

    near = hashes_of(pa.table({GROUP: touched}), GROUP)
    group_swap = visited(area, table, in_groups, near, sums, merge_sums, seen_sums)
    extreme_swap = SwappedLeaves()
    if totals.has_values:
        # The ends of every group that is told are read, also where they do not change. A file of
        # values that is split changes those of groups that are not told.
        near = np.concatenate([near, hashes_of(extremes, GROUP)])
        extreme_swap = visited(
            area, EXTREMES, in_extremes, near, extremes, with_extremes, seen_extremes
        )
    return GroupsDone(group_swap, extreme_swap, write_outbox(area, results.records()))
