"""One topic of a run: from its position in the table, batch by batch. Shell.

A pipeline with a list of topics has one of these for each. They take turns, so that a transaction
of the table moves positions of one topic only.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.applying import BatchReport
from ledgerstone.pipeline.batch_planning import BatchPlanner, PlannedBatch
from ledgerstone.pipeline.batches import BatchWriter
from ledgerstone.pipeline.connecting import log_ends
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.errors import DeletesMissed, PipelineError
from ledgerstone.pipeline.executors import SparkExecutors
from ledgerstone.pipeline.following import (
    begin_to_follow,
    check_followed,
    how_to_begin_anew,
    topic_now,
)
from ledgerstone.pipeline.missed_deletes import MissedDeletesCheck
from ledgerstone.pipeline.state.reconcile import reconcile
from ledgerstone.pipeline.tables.target import Positions, TableTarget
from ledgerstone.spark.read_options import OnMissedTombstones

logger = logging.getLogger(__name__)


class RunParts(NamedTuple):
    """What the topics of a run share."""

    client: Client
    spark: SparkSession
    executors: SparkExecutors
    work: Path
    once: bool


class TopicRun:
    def __init__(self, pipeline: Pipeline, target: TableTarget, parts: RunParts) -> None:
        """`pipeline` and `target` are those of the topic."""
        self._pipeline = pipeline
        self._target = target
        self._parts = parts
        self._planner: BatchPlanner
        self._writer: BatchWriter
        self._watch: MissedDeletesCheck
        self.lag = 0
        self.reconciled = 0  # rows whose tombstone was missed

    def begin(self) -> None:
        client, pipeline = self._parts.client, self._pipeline
        begin_to_follow(pipeline, self._target, topic_now(client, pipeline.source.topic))
        self._planner = BatchPlanner(client, pipeline, once=self._parts.once)
        self._writer = BatchWriter(pipeline, self._target, self._planner, self._parts.executors)
        self._check_reach()
        self._watch = MissedDeletesCheck(client, pipeline.source, self._parts.work)
        self._check_deletes()

    @property
    def topic(self) -> str:
        return self._pipeline.source.topic

    @property
    def positions(self) -> Positions:
        return self._writer.positions

    @property
    def shown_positions(self) -> Mapping[int | str, int]:
        """By partition; with a list of topics, by topic and partition."""
        if not self._pipeline.source.topics:
            return dict(self.positions.items())
        topic = self._pipeline.source.topic
        return {f"{topic}-{each}": at for each, at in self.positions.items()}

    def next_batch(self) -> PlannedBatch | None:
        """None if the table has everything. Raises if deletes were missed meanwhile."""
        batch = self._planner.next_batch(self.positions)
        self.lag = 0 if batch is None else batch.backlog
        if batch is not None:
            self._check_deletes()
            # The topic may have been created again since the run began.
            check_followed(self._pipeline, self._target, batch.followed)
        return batch

    def write(self, batch: PlannedBatch) -> BatchReport:
        report = self._writer.write(batch)
        self.lag = max(batch.backlog - batch.incoming.rows, 0)
        return report

    def _check_reach(self) -> None:
        """Checks that the topic still has everything that the table has applied."""
        topic = self._pipeline.source.topic
        ends = log_ends(self._parts.client, topic)
        for partition, position in self.positions.items():
            end = ends.get(partition)
            if end is None or end < position:
                said = "is not there" if end is None else f"ends at {end}"
                raise PipelineError(
                    f"the table has applied {topic}-{partition} up to {position}, and the "
                    f"partition {said}: the log was truncated. "
                    f"{how_to_begin_anew(self._pipeline)}"
                )

    def _check_deletes(self) -> None:
        choice = self._pipeline.source.on_missed_tombstones
        if choice is OnMissedTombstones.IGNORE:
            return
        missed = self._watch.check(self.positions)
        if not missed:
            return
        text = "; ".join(map(str, missed))
        if choice is OnMissedTombstones.FAIL:
            raise DeletesMissed(
                f"deletes may have been missed: {text}. Run `ledgerstone pipeline reconcile`, or "
                "choose on_missed_tombstones: reconcile"
            )
        logger.warning("pipeline=%s reconciles: %s", self._pipeline.name, text)
        self.reconciled += reconcile(self._parts.spark, self._pipeline, self._target).extra
        self._watch.settled(self.positions)
