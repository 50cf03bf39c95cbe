"""The state of a join of two tables, on the driver: it hands out work and commits names. Shell."""

from collections.abc import Sequence
from typing import Final

from ledgerstone.dataclasses import replace
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.status import held
from ledgerstone.pipeline.streams.foreign_tasks import (
    LEFT_KEYS,
    OPERATIONS,
    SUBSCRIPTIONS,
    ForeignJob,
    LeftJob,
    join_foreign,
    merge_left,
)
from ledgerstone.pipeline.streams.join_tasks import CHANGES, LEFT, RIGHT, JoinJob, join_sides
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
from ledgerstone.pipeline.tables.target import Executors

Sides = tuple[SlotFiles, SlotFiles]
JOIN: Final = "join"  # among the kinds of states


class JoinState:
    def __init__(
        self, store: StateStore, executors: Executors, *, how: str, by_foreign_key: bool
    ) -> None:
        known = ("inner", "left") if by_foreign_key else ("inner", "left", "full")
        if how not in known:
            raise PipelineError(f"how={how}: such a join is {' or '.join(known)}")
        self._store = store
        self._executors = executors
        self._how = how
        self._by_foreign_key = by_foreign_key

    def open(
        self, definition: str, to: tuple[str, str], tell: Tell, *, topics: Sequence[str] = ()
    ) -> None:
        """`to` is the result topic and its id, `topics` are those that it reads."""
        spec = {
            "kind": JOIN,
            "topics": list(topics),
            "how": self._how,
            "by_foreign_key": self._by_foreign_key,
        }
        with held(self._store.work):
            version = self._store.open(definition, spec)
            known = version.told_to
            if known is None:
                version = replace(version, told_to=to)
                self._store.commit(version)
            elif known != to:
                raise PipelineError(
                    f"the results are in topic {known[0]}, and {to[0]} is another one or "
                    f"was created again. Delete {self._store.work} to write all of them"
                )
            ticked_off(self._store, version, tell)

    def stage(self) -> Sides:
        left, right = (
            new_step(self._store.area, name, CHANGES.change_schema) for name in ("left", "right")
        )
        return left, right

    def apply(
        self, batch: int, stage: Sides, staged: Sequence[Sequence[SlotRows]], tell: Tell
    ) -> bool:
        """False where the batch was applied before."""
        left, right = (put_down(*each) for each in zip(stage, staged, strict=True))

        def merge(version: StateVersion) -> StateVersion:
            return self._merged(version, left, right)

        has_changes = left.counts or right.counts
        return apply_batch(self._store, batch, merge if has_changes else None, tell)

    def retract(self, stage: Sides, staged: Sequence[Sequence[SlotRows]]) -> None:
        left, right = (put_down(*each) for each in zip(stage, staged, strict=True))
        retract(self._store, lambda version: self._merged(version, left, right))

    def _merged(self, version: StateVersion, left: PutDown, right: PutDown) -> StateVersion:
        merge = self._by_foreign if self._by_foreign_key else self._by_key
        return merge(version, left, right)

    def _by_key(self, version: StateVersion, left: PutDown, right: PutDown) -> StateVersion:
        tables = [version.files(LEFT.name), version.files(RIGHT.name)]
        shares = shares_of(tables, _together(left, right), parallelism=self._executors.parallelism)
        jobs = [JoinJob(left, right, share, self._how) for share in shares]
        done = self._executors.run(join_sides, jobs)
        new = version.swapped(
            {LEFT.name: [each.left for each in done], RIGHT.name: [each.right for each in done]}
        )
        return replace(new, outbox=_named([each.outbox for each in done]))

    def _by_foreign(self, version: StateVersion, left: PutDown, right: PutDown) -> StateVersion:
        parallelism = self._executors.parallelism
        out = new_step(self._store.area, "operations", OPERATIONS)
        shares = shares_of([version.files(LEFT_KEYS.name)], left.counts, parallelism=parallelism)
        lefts = self._executors.run(
            merge_left, [LeftJob(left, share, out, self._how) for share in shares]
        )
        operations = put_down(out, [each.operations for each in lefts])
        tables = [version.files(SUBSCRIPTIONS.name), version.files(RIGHT.name)]
        shares = shares_of(tables, _together(operations, right), parallelism=parallelism)
        done = self._executors.run(
            join_foreign, [ForeignJob(operations, right, share, self._how) for share in shares]
        )
        new = version.swapped(
            {
                LEFT_KEYS.name: [each.swapped for each in lefts],
                SUBSCRIPTIONS.name: [each.subscriptions for each in done],
                RIGHT.name: [each.right for each in done],
            }
        )
        told = [each.outbox for each in lefts] + [each.outbox for each in done]
        return replace(new, outbox=_named(told))


def _together(one: PutDown, other: PutDown) -> dict[int, int]:
    found = dict(one.counts)
    for slot, count in other.counts.items():
        found[slot] = found.get(slot, 0) + count
    return found


def _named(paths: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(each for each in paths if each is not None)
