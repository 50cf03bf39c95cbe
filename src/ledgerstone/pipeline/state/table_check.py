"""Compares a table with its topic, part by part, for `verify` and `reconcile`. Shell.

The driver holds the latest records of as many partitions as Spark has cores, and then one part of
each side; the rest is in the pipeline's work directory.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from ledgerstone.dataclasses import replace
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.following import check_followed, topic_now
from ledgerstone.pipeline.layout import TOPIC, layout_of
from ledgerstone.pipeline.reading import collected, latest_changes
from ledgerstone.pipeline.state.comparing import Comparison, compare, total
from ledgerstone.pipeline.state.spilling import Spill, own_directory
from ledgerstone.pipeline.tables.target import TableTarget
from ledgerstone.system import SystemClock

# Small repairs of many parts are one transaction of the table.
_REPAIRS_AT_ONCE: Final = 100_000


class TableCheck:
    def __init__(self, spark: SparkSession, pipeline: Pipeline, target: TableTarget) -> None:
        self._layout = layout_of(pipeline)
        self._topic = pipeline.source.topic if pipeline.source.topics else None
        self._target = target
        self._files = ExitStack()
        directory = own_directory(Path(pipeline.work))
        # Entered first, so that it goes last.
        self._files.callback(shutil.rmtree, directory, ignore_errors=True)
        layout = self._layout
        try:
            with connect_to(pipeline.source.bootstrap, pipeline.source.command_config) as client:
                check_followed(pipeline, target, topic_now(client, pipeline.source.topic))
            # Positions first: what is applied while the topic is read is pending, not wrong.
            self._positions = target.positions()
            self._rows = self._files.enter_context(
                Spill(directory / "table", layout, layout.table_schema)
            )
            self._rows.add(_rows_of(pipeline, target))
            self._latest = self._files.enter_context(
                Spill(directory / "topic", layout, layout.change_schema)
            )
            self._latest.add(_latest_by_partitions(spark, pipeline))
            self._now_ms = SystemClock().now_ms()
        except BaseException:
            self._files.close()
            raise

    def __enter__(self) -> "TableCheck":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._files.close()

    def total(self) -> Comparison:
        found = total((found for found, _ in self._compared()), self._layout)
        if self._topic is None:
            return found
        partitions = tuple(replace(each, topic=self._topic) for each in found.partitions)
        return replace(found, partitions=partitions)

    def repairs(self) -> Iterator[pa.Table]:
        """Changes that correct the table, some at a time."""
        some: list[pa.Table] = []
        count = 0
        for _, repairs in self._compared():
            if repairs.num_rows:
                some.append(repairs)
                count += repairs.num_rows
            if count >= _REPAIRS_AT_ONCE:
                yield pa.concat_tables(some)
                some, count = [], 0
        if some:
            yield pa.concat_tables(some)

    def _compared(self) -> Iterator[tuple[Comparison, pa.Table]]:
        sides = zip(self._latest.parts(), self._rows.parts(), strict=True)
        for latest, rows in sides:
            yield compare(latest, rows, self._positions, self._layout, now_ms=self._now_ms)


def _rows_of(pipeline: Pipeline, target: TableTarget) -> Iterator[pa.Table]:
    """Of the topic alone."""
    for piece in target.rows():
        if pipeline.source.topics:
            yield piece.filter(pc.equal(piece.column(TOPIC), pipeline.source.topic))
        else:
            yield piece


def _latest_by_partitions(spark: SparkSession, pipeline: Pipeline) -> Iterator[pa.Table]:
    topic = pipeline.source.topic
    with connect_to(pipeline.source.bootstrap, pipeline.source.command_config) as client:
        partitions = sorted(client.topic(topic).partitions)
    at_once = max(1, spark.sparkContext.defaultParallelism)
    for first in range(0, len(partitions), at_once):
        some = partitions[first : first + at_once]
        yield collected(latest_changes(spark, pipeline, some), pipeline)
