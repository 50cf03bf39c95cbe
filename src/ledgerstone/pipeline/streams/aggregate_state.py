"""The state of an aggregate, on the driver: it hands out work and commits names. Shell.

Changes are merged into `keys`, by key. What groups gain and lose by that goes on: values are
counted in `values`, by value, for `min` and `max`; then sums and ends are added to `groups` and
`extremes`, by group. One commit names the new files, the batch and the records to tell.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ledgerstone.dataclasses import replace
from ledgerstone.pipeline.status import held
from ledgerstone.pipeline.streams.aggregate_tasks import (
    ChangeStager,
    GroupsDone,
    GroupsJob,
    KeysJob,
    add_to_groups,
    groups_table,
    keys_table,
    merge_keys,
)
from ledgerstone.pipeline.streams.group_values import EXTREMES_SCHEMA, VALUES_SCHEMA
from ledgerstone.pipeline.streams.outbox import Tell, ticked_off
from ledgerstone.pipeline.streams.state_shares import Share, shares_of
from ledgerstone.pipeline.streams.state_store import Merged, StateStore, StateVersion
from ledgerstone.pipeline.streams.state_tables import (
    PutDown,
    StateTable,
    counted_together,
    new_step,
    put_down,
)
from ledgerstone.pipeline.streams.totals import GroupTotals
from ledgerstone.pipeline.streams.value_tasks import EXTREMES, VALUES, ValuesJob, count_values
from ledgerstone.pipeline.tables.target import Executors, InProcess

AGGREGATE: Final = "aggregate"  # among the kinds of states


class AggregateState:
    def __init__(self, store: StateStore, totals: GroupTotals, executors: Executors) -> None:
        self._store = store
        self._totals = totals
        self._executors = executors

    def open(
        self, definition: str, to: tuple[str, str], tell: Tell, *, topics: Sequence[str] = ()
    ) -> None:
        """`to` is the result topic and its id. One that has not heard of any group is told of all
        of them, and what an earlier run has not told is told now. `topics` are those it reads."""
        spec = {"kind": AGGREGATE, "topics": list(topics), **self._totals.as_json()}
        with held(self._store.work):
            version = self._store.open(definition, spec)
            if version.told_to != to:
                outbox = () if version.told_to is None else self._everything(version)
                # A new number: the old one may have been told to the old topic.
                version = replace(version.told(), told_to=to, outbox=outbox)
                self._store.commit(version)
            ticked_off(self._store, version, tell)

    @property
    def store(self) -> StateStore:
        return self._store

    def stager(self) -> ChangeStager:
        schema = self._totals.layout.change_schema
        return ChangeStager(self._totals, new_step(self._store.area, "changes", schema))

    def in_task(self) -> "AggregateState":
        return AggregateState(self._store, self._totals, InProcess())

    def merged(self, version: StateVersion, changes: Sequence[PutDown]) -> Merged:
        totals, area, run = self._totals, self._store.area, self._executors.run
        (rows,) = changes
        sums_out = new_step(area, "sums", totals.group_schema)
        values_out = new_step(area, "values", VALUES_SCHEMA)
        shares = self._shares(version, [keys_table(totals)], rows.counts)
        merged = run(
            merge_keys, [KeysJob(totals, rows, share, sums_out, values_out) for share in shares]
        )
        values = put_down(values_out, [each.values for each in merged])
        ends_out = new_step(area, "extremes", EXTREMES_SCHEMA)
        shares = self._shares(version, [VALUES], values.counts) if values.counts else []
        counted = run(count_values, [ValuesJob(values, share, ends_out) for share in shares])
        sums = put_down(sums_out, [each.sums for each in merged])
        ends = put_down(ends_out, [each.extremes for each in counted])
        tables = [groups_table(totals), EXTREMES]
        shares = self._shares(version, tables, counted_together(sums, ends))
        added = run(add_to_groups, [GroupsJob(totals, sums, ends, share) for share in shares])
        swaps = {
            keys_table(totals).name: [each.swapped for each in merged],
            VALUES.name: [each.swapped for each in counted],
            groups_table(totals).name: [each.groups for each in added],
            EXTREMES.name: [each.extremes for each in added],
        }
        return Merged(swaps, _outbox(added))

    def _shares(
        self, version: StateVersion, tables: Sequence[StateTable], counts: Mapping[int, int]
    ) -> list[Share]:
        files = [version.files(each.name) for each in tables]
        return shares_of(files, counts, parallelism=self._executors.parallelism)

    def _everything(self, version: StateVersion) -> tuple[str, ...]:
        totals, area = self._totals, self._store.area
        tables = [version.files(each.name) for each in (groups_table(totals), EXTREMES)]
        sums = put_down(new_step(area, "sums", totals.group_schema), [])
        ends = put_down(new_step(area, "extremes", EXTREMES_SCHEMA), [])
        shares = shares_of(tables, {}, parallelism=self._executors.parallelism, everything=True)
        jobs = [GroupsJob(totals, sums, ends, share, tells_all=True) for share in shares]
        return _outbox(self._executors.run(add_to_groups, jobs))


def _outbox(done: Sequence[GroupsDone]) -> tuple[str, ...]:
    return tuple(each.outbox for each in done if each.outbox is not None)
