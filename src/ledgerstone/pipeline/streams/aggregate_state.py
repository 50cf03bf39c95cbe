"""The state of an aggregate, on the driver: it hands out work and commits names. Shell.

A batch has two steps: changes are merged into `keys`, by key; what groups gain and lose by that is
added to `groups` and `values`, by group. Then one commit names the new files, the batch and the
records to tell.
"""

from collections.abc import Sequence
from typing import Final

from ledgerstone.dataclasses import replace
from ledgerstone.pipeline.status import held
from ledgerstone.pipeline.streams.aggregate_tasks import (
    VALUES,
    GroupsDone,
    GroupsJob,
    KeysJob,
    add_to_groups,
    groups_table,
    keys_table,
    merge_keys,
)
from ledgerstone.pipeline.streams.outbox import Tell, apply_batch, retract, ticked_off
from ledgerstone.pipeline.streams.state_shares import shares_of
from ledgerstone.pipeline.streams.state_store import StateStore, StateVersion
from ledgerstone.pipeline.streams.state_tables import (
    PutDown,
    SlotFiles,
    SlotRows,
    new_step,
    put_down,
)
from ledgerstone.pipeline.streams.totals import GroupTotals
from ledgerstone.pipeline.tables.target import Executors

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

    def stage(self) -> SlotFiles:
        """Where the changes of the next batch go."""
        return new_step(self._store.area, "changes", self._totals.layout.change_schema)

    def apply(self, batch: int, stage: SlotFiles, staged: Sequence[SlotRows], tell: Tell) -> bool:
        """False where the batch was applied before."""
        changes = put_down(stage, staged)

        def merge(version: StateVersion) -> StateVersion:
            return self._merged(version, changes)

        return apply_batch(self._store, batch, merge if changes.counts else None, tell)

    def retract(self, stage: SlotFiles, staged: Sequence[SlotRows]) -> None:
        changes = put_down(stage, staged)
        retract(self._store, lambda version: self._merged(version, changes))

    def _merged(self, version: StateVersion, changes: PutDown) -> StateVersion:
        totals, keys, groups = self._totals, keys_table(self._totals), groups_table(self._totals)
        parallelism = self._executors.parallelism
        out = new_step(self._store.area, "deltas", totals.delta_schema)
        shares = shares_of([version.files(keys.name)], changes.counts, parallelism=parallelism)
        merged = self._executors.run(
            merge_keys, [KeysJob(totals, changes, share, out) for share in shares]
        )
        deltas = put_down(out, [each.deltas for each in merged])
        tables = [version.files(groups.name), version.files(VALUES.name)]
        jobs = [
            GroupsJob(totals, deltas, share)
            for share in shares_of(tables, deltas.counts, parallelism=parallelism)
        ]
        added = self._executors.run(add_to_groups, jobs)
        new = version.swapped(
            {
                keys.name: [each.swapped for each in merged],
                groups.name: [each.groups for each in added],
                VALUES.name: [each.values for each in added],
            }
        )
        return replace(new, outbox=_outbox(added))

    def _everything(self, version: StateVersion) -> tuple[str, ...]:
        tables = [
            version.files(groups_table(self._totals).name),
            version.files(VALUES.name),
        ]
        nothing = put_down(new_step(self._store.area, "all", self._totals.delta_schema), [])
        shares = shares_of(tables, {}, parallelism=self._executors.parallelism, everything=True)
        jobs = [GroupsJob(self._totals, nothing, share, tells_all=True) for share in shares]
        return _outbox(self._executors.run(add_to_groups, jobs))


def _outbox(done: Sequence[GroupsDone]) -> tuple[str, ...]:
    return tuple(each.outbox for each in done if each.outbox is not None)
