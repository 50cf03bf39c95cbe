"""One micro-batch into the state of an operator, by as few jobs of Spark as its size allows. Shell.

A large one takes a job for each step: its rows are put down by key, and tasks are made of what is
there. A small one takes a single job with a single task, which reads its rows, and goes through
the same steps by itself. Either way the driver gets names of files, and commits them.
"""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError
from ledgerstone.pipeline.streams.outbox import Tell, apply_batch
from ledgerstone.pipeline.streams.staging import (
    BatchRows,
    SparkRows,
    StagedRows,
    Stager,
    gathered,
)
from ledgerstone.pipeline.streams.state_shares import fits_one_task
from ledgerstone.pipeline.streams.state_store import Merged, StateStore, StateVersion
from ledgerstone.pipeline.streams.state_tables import PutDown, SlotRows
from ledgerstone.pipeline.task_failures import ReturnedFailures, TaskFailure
from ledgerstone.spark.offsets import backlog, from_json, recreated, topic_ids_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_OFFSETS_FORMAT: Final = "v1"

logger = logging.getLogger(__name__)


class OperatorState(Protocol):
    @property
    def store(self) -> StateStore: ...

    def stager(self) -> Stager:
        """For one batch; another one puts its rows down elsewhere."""

    def merged(self, version: StateVersion, changes: "Sequence[PutDown]") -> Merged:
        """What is put down, in each place of the stager, merged into the files of a version."""

    def in_task(self) -> "OperatorState":
        """Picklable: the same state, which does all of its work where it is."""


def apply_rows(state: OperatorState, batch: int, rows: BatchRows, tell: Tell) -> bool:
    """False where the batch was applied before."""

    def merge(version: StateVersion) -> Merged | None:
        if fits_one_task(rows.at_most, version.tables.values()):
            done = _merged_by_one(state, version, rows)
            if not isinstance(done, TaskFailure):
                return done
            if not done.retriable:
                raise done.error()
            logger.warning("a micro-batch is repeated, by more tasks: %s", done)
        stager = state.stager()
        changes = gathered(stager, rows.run(StagedRows(stager=stager).stage, alone=False))
        return state.merged(version, changes) if any(each.counts for each in changes) else None

    return apply_batch(state.store, batch, merge, tell)


def _merged_by_one(
    state: OperatorState, version: StateVersion, rows: BatchRows
) -> Merged | TaskFailure | None:
    stager = state.stager()
    merge = MergedThere(stager=stager, state=state.in_task(), version=version)
    function = StagedRows(stager=stager, then=ReturnedFailures(work=merge)).stage
    found: list[Merged | TaskFailure] = rows.run(function, alone=True)
    assert len(found) <= 1, "more than one task"
    return found[0] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedThere:
    """Picklable: what the only task of a batch does with what it has put down."""

    stager: Stager
    state: OperatorState
    version: StateVersion

    def __call__(self, staged: list[SlotRows]) -> Merged:
        return self.state.merged(self.version, gathered(self.stager, [staged]))


def offsets_of_batch(checkpoint: str, batch: int) -> int | None:
    """How many offsets a micro-batch spans, which Spark notes before it runs. None if that is not
    known, as of a query's first one."""
    directory = Path(checkpoint) / "offsets"
    total = 0
    try:
        before, after = (_noted(directory / str(number)) for number in (batch - 1, batch))
        for start, end in zip(before, after, strict=True):
            if recreated(topic_ids_in(start), topic_ids_in(end)):
                return None
            ends = from_json(end)
            total += backlog({**dict.fromkeys(ends, 0), **from_json(start)}, ends)
    except (OSError, ValueError, ConfigError):
        return None
    return total


def _noted(path: Path) -> "list[dict[str, object]]":
    """The offset of each source of a query."""
    version, _, *offsets = path.read_text(encoding="utf-8").splitlines()
    if version != _OFFSETS_FORMAT:
        raise ValueError(f"{path} is of format {version}")
    return [json.loads(each) for each in offsets]


def started(
    changes: "DataFrame", each: "Callable[[DataFrame, int], None]", checkpoint: str, *, once: bool
) -> "StreamingQuery":
    from ledgerstone.pipeline.streams.frames import trigger_of

    return (
        changes.writeStream.foreachBatch(each)
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger_of(once=once))
        .start()
    )


def following(
    changes: "DataFrame", state: OperatorState, tell: Tell, *, once: bool
) -> "StreamingQuery":
    """A query that brings every micro-batch of `changes` into the state."""
    checkpoint = state.store.checkpoint

    def each_batch(batch: "DataFrame", batch_id: int) -> None:
        rows = SparkRows(batch, offsets_of_batch(checkpoint, batch_id))
        apply_rows(state, batch_id, rows, tell)

    return started(changes, each_batch, checkpoint, once=once)
