"""The contract of a table that follows a topic. Pure.

A target keeps, in the same transaction as its rows, how far in each partition it has come. That
is the only truth about progress: whatever dies, a run goes on from there, so a change is applied
once. One process at a time writes; the runner holds a lock.

Changes reach a target in two steps, so that no row passes through the driver. Tasks put them where
a `BatchStage` says; then `apply_staged` takes the names of what they wrote. `apply` and `repair` do
both steps, with changes that are in memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.layout import DELETED
from ledgerstone.pipeline.tables.leaves import Incoming

Positions = dict[int, int]  # partition: next offset

Job = TypeVar("Job")
Done = TypeVar("Done")


class Followed(NamedTuple):
    """Which topic the positions of a table are of. A topic that was deleted and created again has
    the same name and another id."""

    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One set of changes that is in the table. Counted as changes, the same in every target: a
    tombstone is a delete whether or not there was a row, which not every database tells."""

    upserts: int
    deletes: int
    version: int | None = None  # of the table, where it has versions


def counted(changes: pa.Table) -> tuple[int, int]:
    """Upserts and deletes."""
    deletes = int(pc.sum(changes.column(DELETED)).as_py() or 0)
    return changes.num_rows - deletes, deletes


class Staged(NamedTuple):
    """What one attempt of a task has put down: names and counts, never a row."""

    name: str
    groups: tuple[int, ...]
    upserts: int
    deletes: int


class ChangeSink(Protocol):
    """Of one attempt of a task."""

    def add(self, changes: pa.Table) -> None:
        """Good changes, decoded, in the order of their offsets; a key may come again."""

    def finish(self) -> Staged: ...

    def abandon(self) -> None:
        """After a failure; what is left of it is removed later."""


class BatchStage(Protocol):
    """Where the changes of one batch go first; made on the driver, pickled to the tasks."""

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        """Rows of the changes that this target cannot hold, with the reason."""

    def open(self) -> ChangeSink: ...


def put_down(stage: BatchStage, changes: pa.Table) -> Staged:
    """Changes that are in memory, as one task's."""
    sink = stage.open()
    try:
        sink.add(changes)
    except BaseException:
        sink.abandon()
        raise
    return sink.finish()


class RowSource(Protocol):
    """Some rows of a table, for one task to read; picklable."""

    def pieces(self) -> Iterator[pa.Table]: ...


class Executors(Protocol):
    """Where the work of a table is done: here, or by Spark's executors."""

    @property
    def parallelism(self) -> int: ...

    def run(self, work: Callable[[Job], Done], jobs: Sequence[Job]) -> list[Done]:
        """In the order of the jobs. Raises what a job raised, as it was raised."""


class InProcess:
    """In this process, one job after the other."""

    parallelism = 1

    def run(self, work: Callable[[Job], Done], jobs: Sequence[Job]) -> list[Done]:
        return [work(job) for job in jobs]


class TableTarget(Protocol):
    def prepare(self) -> None:
        """Makes what is missing; refuses a table that has other columns.

        A table that has to be made has come nowhere, whatever is noted about an earlier one. What
        a run that died has left behind is removed."""

    def positions(self) -> Positions:
        """Behind the last record applied, per partition of the topic; empty if none was, also where
        nothing was prepared yet."""

    def followed(self) -> Followed | None:
        """As recorded by `follow`; None if it was not."""

    def follow(self, followed: Followed) -> None:
        """Records the topic, for good, before anything of it is applied."""

    def stage(self, incoming: Incoming) -> BatchStage:
        """For one batch; the next call is for the next batch."""

    def apply_staged(
        self,
        stage: BatchStage,
        staged: Sequence[Staged],
        positions: Mapping[int, int],
        *,
        forced: bool = False,
    ) -> Applied:
        """What the tasks of the batch have put down, and the new positions: all of it, or nothing.

        Of each key one change is applied, unless it is a history (README, rules 4 and 5); `forced`
        ones win whatever the row's offset."""

    def drop_staged(self) -> None:
        """What is left of batches that were not applied."""

    def tidy(self) -> None:
        """Removes what was kept for readers of past versions and is old enough; now and then."""

    def rows(self) -> Iterator[pa.Table]:
        """Every row, with the columns of the layout, in pieces."""

    def row_sources(self, wanted: int) -> Sequence[RowSource]:
        """Every row in about so many parts; none if only `rows` can tell them."""
        return ()

    def close(self) -> None: ...

    def apply(self, changes: pa.Table, positions: Mapping[int, int]) -> Applied:
        """Changes that are in memory, none of them unfit."""
        return self._apply(changes, positions, forced=False)

    def repair(self, changes: pa.Table) -> Applied:
        """Changes that win whatever the row's offset; positions do not change."""
        return self._apply(changes, {}, forced=True)

    def _apply(self, changes: pa.Table, positions: Mapping[int, int], *, forced: bool) -> Applied:
        stage = self.stage(Incoming(changes.num_rows, changes.nbytes))
        staged = [put_down(stage, changes)] if changes.num_rows else []
        return self.apply_staged(stage, staged, positions, forced=forced)
