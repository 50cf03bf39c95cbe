"""Runs a pipeline from its table's position to the end of the topic, or forever. Shell.

The table decides where to resume: whatever was killed, its rows and its position agree. Spark runs
the tasks of a micro-batch, and nothing else; where a batch begins and ends is ours. The group
commits after the table does, so that lag and tombstone holds never see more than the table has.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from ledgerstone.client.blocking import Client
from ledgerstone.errors import LedgerstoneError
from ledgerstone.pipeline.announcing import Announcer
from ledgerstone.pipeline.applying import BatchReport
from ledgerstone.pipeline.batch_planning import PlannedBatch
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.errors import TopicChanged
from ledgerstone.pipeline.executors import SparkExecutors
from ledgerstone.pipeline.following import how_to_begin_anew
from ledgerstone.pipeline.holding import held_with_table
from ledgerstone.pipeline.status import RunState, RunStatus, own_pid, write_status
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.pipeline.tables.target import TableTarget
from ledgerstone.pipeline.topic_run import RunParts, TopicRun
from ledgerstone.pipeline.turns import Turns
from ledgerstone.spark.errors import TopicRecreated
from ledgerstone.spark.failures import failure_of, is_connection_lost

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
        turns: Turns | None = None,
    ) -> None:
        """`on_plan` is called when a batch begins, `on_batch` when it is in the table. `turns` are
        those of all runs that share the session."""
        self._pipeline = pipeline
        self._spark = spark
        self._once = once
        self._on_batch = on_batch
        self._on_plan = on_plan
        self._executors = SparkExecutors(spark, turns)
        self._work = Path(pipeline.work)
        self._stopped = False
        self._tidied_ms: int | None = None

    def stop(self) -> None:
        """Asks the run to stop; the current micro-batch finishes first."""
        self._stopped = True

    def run(self) -> RunStatus:
        pipeline = self._pipeline
        with ExitStack() as opened:
            opened.enter_context(held_with_table(pipeline))
            client = opened.enter_context(
                connect_to(pipeline.source.bootstrap, pipeline.source.command_config)
            )
            targets = [
                opened.enter_context(closing(open_target(each, executors=self._executors)))
                for each in pipeline.each_topic
            ]
            now_ms = client.clock.now_ms()
            status = RunStatus(
                pipeline=pipeline.name, pid=own_pid(), started_ms=now_ms, updated_ms=now_ms
            )
            announcer = Announcer(client, pipeline)
            with self._reported(announcer, status):
                for target in targets:
                    target.prepare()
                self._follow(client, targets, announcer, status)
        return status

    @contextmanager
    def _reported(self, announcer: Announcer, status: RunStatus) -> Iterator[None]:
        """The status file always says how the run ended, and the group's commit if it can."""
        write_status(self._work, status)
        failure: BaseException | None = None
        try:
            announcer.begin(status)
            yield
            # A stopped run is as far as its positions say, perhaps not at the end.
            ended = RunState.STOPPED if self._stopped else RunState.FINISHED
            status.state = ended.value
        except BaseException as error:
            status.state = RunState.FAILED.value
            status.error = str(error) or type(error).__name__
            failure = error
            raise
        finally:
            status.updated_ms = announcer.now_ms()
            write_status(self._work, status)
            announcer.say(status, failure)

    def _follow(
        self,
        client: Client,
        targets: Sequence[TableTarget],
        announcer: Announcer,
        status: RunStatus,
    ) -> None:
        parts = RunParts(client, self._spark, self._executors, self._work, self._once)
        topics = [
            TopicRun(pipeline, target, parts)
            for pipeline, target in zip(self._pipeline.each_topic, targets, strict=True)
        ]
        for topic in topics:
            topic.begin()
        _note(topics, status)
        for topic in topics:
            announcer.moved(topic.topic, topic.positions, status, has_read=False)
        try:
            while not self._stopped:
                is_new = [self._turn(announcer, topic, topics, status) for topic in topics]
                if not any(is_new):
                    if self._once:
                        break
                    announcer.beat(status)
                    self._pause()
                self._tidy(client, targets[0])
        except Exception as error:
            is_gone = is_connection_lost(error)
            if self._stopped and is_gone:
                # A signal to the whole process group ends the JVM before us: that is no failure.
                name = self._pipeline.name
                logger.info("pipeline=%s: its JVM was stopped too: %s", name, error)
                return
            raise self._why(error) from error
        finally:
            with suppress(LedgerstoneError):
                targets[0].drop_staged()

    def _turn(
        self, announcer: Announcer, topic: TopicRun, topics: Sequence[TopicRun], status: RunStatus
    ) -> bool:
        """Whether there was a batch. A run that is to stop begins none."""
        batch = None if self._stopped else topic.next_batch()
        if batch is None:
            return False
        _note(topics, status)
        if self._on_plan is not None:
            self._on_plan(batch, status)
        report = topic.write(batch)
        status.add(report)
        _note(topics, status)
        announcer.moved(topic.topic, topic.positions, status, has_read=True)
        status.updated_ms = announcer.now_ms()
        write_status(self._work, status)
        if self._on_batch is not None:
            self._on_batch(report, status)
        return True

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


def run_pipeline(
    pipeline: Pipeline, spark: SparkSession, *, once: bool, on_batch: OnBatch | None = None
) -> RunStatus:
    return PipelineRun(pipeline, spark, once=once, on_batch=on_batch).run()


def _note(topics: Sequence[TopicRun], status: RunStatus) -> None:
    status.lag = sum(each.lag for each in topics)
    status.reconciled = sum(each.reconciled for each in topics)
    shown: dict[int | str, int] = {}
    for each in topics:
        shown.update(each.shown_positions)
    status.positions = shown
