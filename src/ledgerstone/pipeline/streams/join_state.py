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
from ledgerstone.pipeline.streams.join_tasks import (
    CHANGES,
    LEFT,
    RIGHT,
    JoinJob,
    SideStager,
    join_sides,
)
from ledgerstone.pipeline.streams.outbox import Tell, ticked_off
from ledgerstone.pipeline.streams.state_shares import shares_of
from ledgerstone.pipeline.streams.state_store import Merged, StateStore, StateVersion
from ledgerstone.pipeline.streams.state_tables import (
    PutDown,
    counted_together,
    new_step,
    put_down,
)
from ledgerstone.pipeline.tables.target import Executors, InProcess

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

    @property
    def store(self) -> StateStore:
        return self._store

    def stager(self) -> SideStager:
        left, right = (
            new_step(self._store.area, name, CHANGES.change_schema) for name in ("left", "right")
        )
        return SideStager(left, right)

    def in_task(self) -> "JoinState":
        return JoinState(
            self._store, InProcess(), how=self._how, by_foreign_key=self._by_foreign_key
        )

    def merged(self, version: StateVersion, changes: Sequence[PutDown]) -> Merged:
        left, right = changes
        merge = self._by_foreign if self._by_foreign_key else self._by_key
        return merge(version, left, right)

    def _by_key(self, version: StateVersion, left: PutDown, right: PutDown) -> Merged:
        tables = [version.files(LEFT.name), version.files(RIGHT.name)]
        shares = shares_of(
            tables, counted_together(left, right), parallelism=self._executors.parallelism
        )
        jobs = [JoinJob(left, right, share, self._how) for share in shares]
        done = self._executors.run(join_sides, jobs)
        swaps = {LEFT.name: [each.left for each in done], RIGHT.name: [each.right for each in done]}
        return Merged(swaps, _named([each.outbox for each in done]))

    def _by_foreign(self, version: StateVersion, left: PutDown, right: PutDown) -> Merged:
        parallelism = self._executors.parallelism
        out = new_step(self._store.area, "operations", OPERATIONS)
        shares = shares_of([version.files(LEFT_KEYS.name)], left.counts, parallelism=parallelism)
        lefts = self._executors.run(
            merge_left, [LeftJob(left, share, out, self._how) for share in shares]
        )
        operations = put_down(out, [each.operations for each in lefts])
        tables = [version.files(SUBSCRIPTIONS.name), version.files(RIGHT.name)]
        shares = shares_of(tables, counted_together(operations, right), parallelism=parallelism)
        done = self._executors.run(
            join_foreign, [ForeignJob(operations, right, share, self._how) for share in shares]
        )
        swaps = {
            LEFT_KEYS.name: [each.swapped for each in lefts],
            SUBSCRIPTIONS.name: [each.subscriptions for each in done],
            RIGHT.name: [each.right for each in done],
        }
        told = [each.outbox for each in lefts] + [each.outbox for each in done]
        return Merged(swaps, _named(told))


def _named(paths: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(each for each in paths if each is not None)
