"""Runs a pipeline from its table's position to the end of the topic, or forever. Shell.

The table decides where to resume, not Spark's checkpoint, which is created anew for every run:
whatever was killed, the table's rows and its position agree. The group commits after the table
does, so that lag and tombstone holds never see more than the table has.
"""

import json
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.applying import BatchReport, ChangeApplier
from ledgerstone.pipeline.connecting import connect_to, log_ends
from ledgerstone.pipeline.dead_letters import letter_sender
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.errors import DeletesMissed, PipelineError
from ledgerstone.pipeline.following import (
    begin_to_follow,
    check_followed,
    how_to_begin_anew,
    topic_now,
)
from ledgerstone.pipeline.missed_deletes import MissedDeletesCheck
from ledgerstone.pipeline.reading import EARLIEST, change_stream, collected
from ledgerstone.pipeline.state.reconcile import reconcile
from ledgerstone.pipeline.status import RunState, RunStatus, held, own_pid, write_status
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.pipeline.tables.target import Followed, TableTarget
from ledgerstone.spark.failures import failure_of, is_connection_lost, spark_said
from ledgerstone.spark.offsets import topic_ids_in
from ledgerstone.spark.progress import publish
from ledgerstone.spark.read_options import OnMissedTombstones
from ledgerstone.types import TopicPartition

CHECKPOINT: Final = "checkpoint"
_POLL_S: Final = 1
# Spark waits ten seconds for a Python process to start; a busy machine may take longer.
_NOT_STARTED: Final = "Python worker failed to connect back"
_STARTS: Final = 3

logger = logging.getLogger(__name__)

OnBatch = Callable[[BatchReport, RunStatus], None]


class _NotStarted(PipelineError):
    """Spark gave up waiting for a Python process; nothing is wrong with the pipeline."""


class PipelineRun:
    """One run; `stop` may be called from a signal handler or another thread."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        *,
        once: bool,
        on_batch: OnBatch | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._once = once
        self._on_batch = on_batch
        self._work = Path(pipeline.work)
        self._applying = threading.Lock()  # Spark calls back in its own thread.
        self._stopped = False
        self._failure: BaseException | None = None

    def stop(self) -> None:
        """Asks the run to stop; a running transaction finishes first."""
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
        followed = topic_now(client, pipeline.source.topic)
        begin_to_follow(pipeline, target, followed)
        applier = ChangeApplier(pipeline, target, letter_sender(client, pipeline))
        status.positions = dict(applier.positions)
        _check_reach(client, pipeline, applier)
        watch = MissedDeletesCheck(client, pipeline.source, self._work)
        self._check_deletes(watch, target, applier, status)
        _publish(client, pipeline, applier.positions)
        checkpoint = self._work / CHECKPOINT

        def apply(found: DataFrame, batch_id: int) -> None:
            try:
                if self._stopped:
                    return
                self._check_deletes(watch, target, applier, status)
                ends, read = batch_ends(checkpoint, batch_id, pipeline.source.topic)
                # The topic may have been created again since the run began.
                check_followed(pipeline, target, read)
                report = applier.apply(collected(found, pipeline), ends)
                status.add(report)
                _publish(client, pipeline, applier.positions)
                status.updated_ms = client.clock.now_ms()
                write_status(self._work, status)
                if self._on_batch is not None:
                    self._on_batch(report, status)
            except BaseException as error:
                # Spark turns it into text; the run raises the original.
                self._failure = error
                raise

        def apply_alone(found: DataFrame, batch_id: int) -> None:
            with self._applying:
                apply(found, batch_id)

        for left in reversed(range(_STARTS)):
            starting = _starting(client, pipeline, applier)
            try:
                self._await(self._start(apply_alone, starting, checkpoint))
                return
            except _NotStarted as error:
                if not left:
                    raise
                logger.warning("pipeline=%s restarts its query: %s", pipeline.name, error)

    def _start(
        self,
        apply: Callable[[DataFrame, int], None],
        starting: dict[int, int],
        checkpoint: Path,
    ) -> StreamingQuery:
        shutil.rmtree(checkpoint, ignore_errors=True)
        self._failure = None
        changes = change_stream(self._spark, self._pipeline, starting)
        writer = changes.writeStream.foreachBatch(apply).queryName(self._pipeline.name)
        writer = writer.option("checkpointLocation", str(checkpoint))
        if self._once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self._pipeline.every_ms} milliseconds")
        return writer.start()

    def _await(self, query: StreamingQuery) -> None:
        is_gone = False
        try:
            # A signal handler cannot call the JVM while we wait for its answer.
            while not self._stopped and not query.awaitTermination(_POLL_S):
                pass
        except Exception as error:  # noqa: BLE001 - py4j's errors have nothing else in common
            is_gone = is_connection_lost(error)
            if self._stopped:
                return
            raise self._why(error, is_gone=is_gone) from None
        finally:
            self._stop(query, is_gone=is_gone)
            # A thread that still writes to the table has to end before it is closed or read again.
            with self._applying:
                pass

    def _why(self, error: Exception, *, is_gone: bool) -> BaseException:
        """The original failure, not Spark's account of it."""
        if _NOT_STARTED in str(error) or _NOT_STARTED in str(self._failure):
            return _NotStarted(spark_said(str(error)))
        failure = error if self._failure is None or is_gone else self._failure
        return failure if not isinstance(failure, Exception) else failure_of(failure)

    def _stop(self, query: StreamingQuery, *, is_gone: bool) -> None:
        try:
            query.stop()
        except Exception as error:
            # A signal to the whole process group ends the JVM before us: that is not a failure.
            if not self._stopped and not is_gone:
                raise
            logger.info("pipeline=%s: its JVM was stopped too: %s", self._pipeline.name, error)

    def _check_deletes(
        self,
        watch: MissedDeletesCheck,
        target: TableTarget,
        applier: ChangeApplier,
        status: RunStatus,
    ) -> None:
        choice = self._pipeline.source.on_missed_tombstones
        if choice is OnMissedTombstones.IGNORE:
            return
        missed = watch.check(applier.positions)
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
        watch.settled(applier.positions)


def run_pipeline(
    pipeline: Pipeline, spark: SparkSession, *, once: bool, on_batch: OnBatch | None = None
) -> RunStatus:
    return PipelineRun(pipeline, spark, once=once, on_batch=on_batch).run()


def batch_ends(
    checkpoint: Path, batch_id: int, topic: str
) -> tuple[dict[int, int], Followed | None]:
    """Where a micro-batch ends, and which topic it is from, according to Spark's offset log.

    Empty if that cannot be read: then the last records decide where it ends."""
    try:
        lines = (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
        content = json.loads(lines[-1])
        ends = {int(partition): int(offset) for partition, offset in content[topic].items()}
        topic_id = topic_ids_in(content).get(topic)
    except (OSError, ValueError, KeyError, IndexError):
        return {}, None
    return ends, None if topic_id is None else Followed(topic, topic_id)


def _starting(client: Client, pipeline: Pipeline, applier: ChangeApplier) -> dict[int, int]:
    """The table's position in every partition; the log start where it has none."""
    ends = log_ends(client, pipeline.source.topic)
    return {partition: applier.positions.get(partition, EARLIEST) for partition in ends}


def _check_reach(client: Client, pipeline: Pipeline, applier: ChangeApplier) -> None:
    """Checks that the topic still has everything that the table has applied."""
    topic = pipeline.source.topic
    ends = log_ends(client, topic)
    for partition, position in applier.positions.items():
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
