"""Runs a pipeline from its table's position to the end of the topic, or forever. Shell.

The table decides where to resume: whatever was killed, its rows and its position agree. Spark runs
the tasks of a micro-batch, and nothing else; where a batch begins and ends is ours. The group
commits after the table does, so that lag and tombstone holds never see more than the table has.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from ledgerstone.client.blocking import Client
from ledgerstone.errors import LedgerstoneError
from ledgerstone.pipeline.applying import BatchReport
from ledgerstone.pipeline.batch_planning import BatchPlanner, PlannedBatch
from ledgerstone.pipeline.batches import BatchWriter
from ledgerstone.pipeline.connecting import connect_to, log_ends
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.errors import DeletesMissed, PipelineError, TopicChanged
from ledgerstone.pipeline.executors import SparkExecutors
from ledgerstone.pipeline.following import (
    begin_to_follow,
    check_followed,
    how_to_begin_anew,
    topic_now,
)
from ledgerstone.pipeline.missed_deletes import MissedDeletesCheck
from ledgerstone.pipeline.state.reconcile import reconcile
from ledgerstone.pipeline.status import RunState, RunStatus, held, own_pid, write_status
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.pipeline.tables.target import Positions, TableTarget
from ledgerstone.spark.errors import TopicRecreated
from ledgerstone.spark.failures import failure_of, is_connection_lost
from ledgerstone.spark.progress import publish
from ledgerstone.spark.read_options import OnMissedTombstones
from ledgerstone.types import TopicPartition

# How soon a run that waits for records notices that it is to stop.
_POLL_S: Final = 0.2
# It looks at every file of a table.
_TIDY_MS: Final = 3_600_000

logger = logging.getLogger(__name__)

OnBatch = Callable[[BatchReport, RunStatus], None]
OnPlan = Callable[[PlannedBatch, RunStatus], None]


class PipelineRun:
    """One run; `stop` may be called from a signal handler or another thread."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        *,
        once: bool,
        on_batch: OnBatch | None = None,
        on_plan: OnPlan | None = None,
    ) -> None:
        """`on_plan` is called when a batch begins, `on_batch` when it is in the table."""
        self._pipeline = pipeline
        self._spark = spark
        self._once = once
        self._on_batch = on_batch
        self._on_plan = on_plan
        self._work = Path(pipeline.work)
        self._stopped = False
        self._tidied_ms: int | None = None

    def stop(self) -> None:
        """Asks the run to stop; the current micro-batch finishes first."""
        self._stopped = True

    def run(self) -> RunStatus:
        pipeline = self._pipeline
        with (
            held(self._work),
            connect_to(pipeline.source.bootstrap, pipeline.source.command_config) as client,
            closing(open_target(pipeline, spark=self._spark)) as target,
        ):
            now_ms = client.clock.now_ms()
            status = RunStatus(
                pipeline=pipeline.name, pid=own_pid(), started_ms=now_ms, updated_ms=now_ms
            )
            with self._reported(client, status):
                target.prepare()
                self._follow(client, target, status)
        return status

    @contextmanager
    def _reported(self, client: Client, status: RunStatus) -> Iterator[None]:
        """The status file always says how the run ended."""
        write_status(self._work, status)
        try:
            yield
            # A stopped run is as far as its positions say, perhaps not at the end.
            ended = RunState.STOPPED if self._stopped else RunState.FINISHED
            status.state = ended.value
        except BaseException as error:
            status.state = RunState.FAILED.value
            status.error = str(error) or type(error).__name__
            raise
        finally:
            status.updated_ms = client.clock.now_ms()
            write_status(self._work, status)

    def _follow(self, client: Client, target: TableTarget, status: RunStatus) -> None:
        pipeline = self._pipeline
        begin_to_follow(pipeline, target, topic_now(client, pipeline.source.topic))
        planner = BatchPlanner(client, pipeline, once=self._once)
        writer = BatchWriter(pipeline, target, planner, SparkExecutors(self._spark))
        status.positions = dict(writer.positions)
        _check_reach(client, pipeline, writer.positions)
        watch = MissedDeletesCheck(client, pipeline.source, self._work)
        self._check_deletes(watch, target, writer.positions, status)
        _publish(client, pipeline, writer.positions)
        try:
            while not self._stopped:
                batch = planner.next_batch(writer.positions)
                if batch is not None:
                    self._check_deletes(watch, target, writer.positions, status)
                    self._write(client, target, writer, batch, status)
                elif self._once:
                    break
                else:
                    self._pause()
                self._tidy(client, target)
        except Exception as error:
            is_gone = is_connection_lost(error)
            if self._stopped and is_gone:
                # A signal to the whole process group ends the JVM before us: that is no failure.
                logger.info("pipeline=%s: its JVM was stopped too: %s", pipeline.name, error)
                return
            raise self._why(error) from error
        finally:
            with suppress(LedgerstoneError):
                target.drop_staged()

    def _write(
        self,
        client: Client,
        target: TableTarget,
        writer: BatchWriter,
        batch: PlannedBatch,
        status: RunStatus,
    ) -> None:
        # The topic may have been created again since the run began.
        check_followed(self._pipeline, target, batch.followed)
        status.lag = batch.backlog
        if self._on_plan is not None:
            self._on_plan(batch, status)
        report = writer.write(batch)
        status.add(report)
        status.lag = max(batch.backlog - batch.incoming.rows, 0)
        _publish(client, self._pipeline, writer.positions)
        status.updated_ms = client.clock.now_ms()
        write_status(self._work, status)
        if self._on_batch is not None:
            self._on_batch(report, status)

    def _tidy(self, client: Client, target: TableTarget) -> None:
        now_ms = client.clock.monotonic_ms()
        if self._tidied_ms is None or now_ms - self._tidied_ms >= _TIDY_MS:
            self._tidied_ms = now_ms
            target.tidy()

    def _pause(self) -> None:
        """Until the next look for news. In slices: a signal handler can only set a flag."""
        left_s = self._pipeline.every_ms / 1000
        while left_s > 0 and not self._stopped:
            threading.Event().wait(min(left_s, _POLL_S))
            left_s -= _POLL_S

    def _why(self, error: Exception) -> LedgerstoneError:
        if isinstance(error, TopicRecreated):
            anew = how_to_begin_anew(self._pipeline)
            return TopicChanged(f"{error}. The table was not changed. {anew}")
        return failure_of(error)

    def _check_deletes(
        self,
        watch: MissedDeletesCheck,
        target: TableTarget,
        positions: Positions,
        status: RunStatus,
    ) -> None:
        choice = self._pipeline.source.on_missed_tombstones
        if choice is OnMissedTombstones.IGNORE:
            return
        missed = watch.check(positions)
        if not missed:
            return
        text = "; ".join(map(str, missed))
        if choice is OnMissedTombstones.FAIL:
            raise DeletesMissed(
                f"deletes may have been missed: {text}. Run `ledgerstone pipeline reconcile`, or "
                "choose on_missed_tombstones: reconcile"
            )
        logger.warning("pipeline=%s reconciles: %s", self._pipeline.name, text)
        status.reconciled += reconcile(self._spark, self._pipeline, target).extra
        watch.settled(positions)


def run_pipeline(
    pipeline: Pipeline, spark: SparkSession, *, once: bool, on_batch: OnBatch | None = None
) -> RunStatus:
    return PipelineRun(pipeline, spark, once=once, on_batch=on_batch).run()


def _check_reach(client: Client, pipeline: Pipeline, positions: Positions) -> None:
    """Checks that the topic still has everything that the table has applied."""
    topic = pipeline.source.topic
    ends = log_ends(client, topic)
    for partition, position in positions.items():
        end = ends.get(partition)
        if end is None or end < position:
            said = "is not there" if end is None else f"ends at {end}"
            raise PipelineError(
                f"the table has applied {topic}-{partition} up to {position}, and the partition "
                f"{said}: the log was truncated. {how_to_begin_anew(pipeline)}"
            )


def _publish(client: Client, pipeline: Pipeline, positions: dict[int, int]) -> None:
    topic = pipeline.source.topic
    offsets = {TopicPartition(topic, each): at for each, at in positions.items()}
    if offsets:
        publish(client, pipeline.source.group, offsets)
