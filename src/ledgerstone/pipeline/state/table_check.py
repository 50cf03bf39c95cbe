"""Compares a table with its topic, for `verify` and `reconcile`. Shell.

Executors read, compare, and put down what would correct the table. The driver gets counts.
"""

import logging
from typing import Final

from pyspark.sql import SparkSession

from ledgerstone.client.blocking import Client
from ledgerstone.dataclasses import replace
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.executors import ATTEMPTS, Exchange, SparkExecutors
from ledgerstone.pipeline.following import check_followed, topic_now
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.reading import common_options
from ledgerstone.pipeline.state.comparing import Comparison, total
from ledgerstone.pipeline.state.comparing_tasks import (
    PARTS,
    Compared,
    ComparePart,
    Side,
    SplitByKey,
    TableRows,
    TopicRange,
)
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.target import BatchStage, Positions, TableTarget
from ledgerstone.pipeline.task_failures import TaskFailure, worst_of
from ledgerstone.spark.offsets import EARLIEST, LATEST
from ledgerstone.spark.planning import ranges_between
from ledgerstone.spark.positions import offsets_at, topic_ids_of
from ledgerstone.spark.range_task import RangeTask
from ledgerstone.spark.read_options import read_options
from ledgerstone.system import SystemClock
from ledgerstone.types import TopicPartition

# About what a change takes, for tables that divide their work by it.
_CHANGE_BYTES: Final = 256

logger = logging.getLogger(__name__)


class TableCheck:
    """Both sides are read once; comparing them again is cheap."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, target: TableTarget) -> None:
        self._pipeline = pipeline
        self._target = target
        self._executors = SparkExecutors(spark)
        self._layout = layout_of(pipeline)
        self._now_ms = SystemClock().now_ms()
        self._read()

    def _read(self) -> None:
        source = self._pipeline.source
        with connect_to(source.bootstrap, source.command_config) as client:
            check_followed(self._pipeline, self._target, topic_now(client, source.topic))
            # Positions first: what is applied while the topic is read is pending, not wrong.
            self._positions: Positions = self._target.positions()
            stage = self._target.stage(Incoming(0, 0))
            sides = [*self._table_sides(), *_topic_sides(client, self._pipeline, stage)]
        give = SplitByKey(layout=self._layout)
        self._exchange: Exchange = self._executors.exchange(give, sides, PARTS)

    def _table_sides(self) -> list[Side]:
        sources = self._target.row_sources(2 * self._executors.parallelism)
        return [TableRows(self._pipeline, each) for each in sources or (None,)]

    def total(self) -> Comparison:
        found = [each.found for each in self._compared()]
        # Of no rows at all: names every partition, also where no part has any.
        nothing = self._work()(())
        assert isinstance(nothing, Compared)
        found_in_all = total([nothing.found, *found], self._layout)
        if not self._pipeline.source.topics:
            return found_in_all
        topic = self._pipeline.source.topic
        partitions = tuple(replace(each, topic=topic) for each in found_in_all.partitions)
        return replace(found_in_all, partitions=partitions)

    def repair(self, found: Comparison, *, only_deletes: bool = False) -> None:
        """Corrects what `total` found, in one transaction of the table."""
        wrong = found.extra + (0 if only_deletes else found.missing + found.stale)
        if not wrong:
            return
        stage = self._target.stage(Incoming(wrong, wrong * _CHANGE_BYTES))
        try:
            compared = self._compared(stage, only_deletes=only_deletes)
            staged = [each.staged for each in compared if each.staged is not None]
            self._target.apply_staged(stage, staged, {}, forced=True)
        finally:
            self._target.drop_staged()

    def _work(self, stage: BatchStage | None = None, *, only_deletes: bool = False) -> ComparePart:
        return ComparePart(
            layout=self._layout,
            positions=self._positions,
            now_ms=self._now_ms,
            stage=stage,
            only_deletes=only_deletes,
        )

    def _compared(
        self, stage: BatchStage | None = None, *, only_deletes: bool = False
    ) -> list[Compared]:
        for left in reversed(range(ATTEMPTS)):
            outcomes = self._exchange.run(self._work(stage, only_deletes=only_deletes))
            failures = [each for each in outcomes if isinstance(each, TaskFailure)]
            if not failures:
                break
            worst = worst_of(failures)
            if not left or not worst.retriable:
                raise worst.error()
            logger.warning("the comparison begins again: %s", worst)
            self._read()
        return [each for each in outcomes if isinstance(each, Compared)]


def _topic_sides(client: Client, pipeline: Pipeline, stage: BatchStage) -> list[Side]:
    """A task for each partition that has records: the latest of each key, tombstones too."""
    options = {**common_options(pipeline.source), "fold": "latest", "startingOffsets": "earliest"}
    read = read_options(options, streaming=True)
    assert read.connection is not None, "a topic without a broker"
    topic, isolation = pipeline.source.topic, read.rows.isolation
    partitions = sorted(TopicPartition(topic, each) for each in client.topic(topic).partitions)
    begin, end = (offsets_at(client, partitions, at, isolation) for at in (EARLIEST, LATEST))
    topic_id = topic_ids_of(client, end).get(topic)
    return [
        TopicRange(pipeline, RangeTask(each, topic_id), read.connection, read.rows, stage)
        for each in ranges_between(begin, end)
    ]
