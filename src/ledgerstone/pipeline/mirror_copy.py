"""Copies one partition from one cluster to another for one round. Shell; on an executor.

Keys, values, headers and times stay the same; offsets do not, so the result maps them. The mirror
is the copy's only writer: records after the recorded end come from an attempt that died before it
could report. If they match what would be written now, they are not written again.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import LATEST, list_offsets
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.mirror_offsets import CopiedRun, joined, runs_of
from ledgerstone.spark.fetching import windows
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.outgoing import built_batches, outgoing_rows
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.producing import BatchProducer
from ledgerstone.spark.read_options import RowOptions, Rows
from ledgerstone.spark.schema import Projection, projection, schema_of
from ledgerstone.spark.windows import FetchWindow, record_batches
from ledgerstone.spark.write_options import WriteOptions, write_columns, write_options
from ledgerstone.system import SystemDice
from ledgerstone.types import TopicPartition

_FETCH_BYTES: Final = 8 << 20
_COLUMNS: Final = ("key", "value", "timestamp", "headers")
_READ: Final = ("key", "value", "offset", "timestamp", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    source: str  # bootstrap
    target: str
    partition: TopicPartition  # of the original
    target_topic: str
    start_offset: int
    end_offset: int
    target_next: int | None  # where the copy ends as far as is noted; None: nothing is
    topic_id: str | None = None  # of the original
    compression: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    partition: TopicPartition
    next_offset: int  # of the original
    target_next: int
    records: int
    tombstones: int
    recognised: int  # found in the copy, written by a try that could not tell
    runs: list[CopiedRun] = field(default_factory=list)


def copy_partition(task: CopyTask) -> Copied:
    with connect_to(task.source) as source, connect_to(task.target) as target:
        return _Copy(task, source, target).run()


class _Copy:
    def __init__(self, task: CopyTask, source: Client, target: Client) -> None:
        self._task, self._source, self._target = task, source, target
        self._to = TopicPartition(task.target_topic, task.partition.partition)
        raw = {
            "kafka.bootstrap.servers": task.target,
            "topic": task.target_topic,
            "kafka.compression.type": task.compression,
        }
        self._options: WriteOptions = write_options(raw, overwrite=False)
        self._columns = write_columns(_fields(_COLUMNS), self._options)
        self._runs: list[CopiedRun] = []
        self._records = 0
        self._tombstones = 0

    def run(self) -> Copied:
        task = self._task
        target_end = list_offsets(self._target, {self._to: LATEST})[self._to].offset
        noted = target_end if task.target_next is None else task.target_next
        if target_end < noted:
            raise PipelineError(
                f"{self._to} ends at {target_end} and was written up to {noted}: it is not the "
                "topic that was mirrored; start over with another work directory"
            )
        extra = target_end - noted
        rows = self._read(self._source, task.partition, task.start_offset, task.end_offset)
        recognised = 0
        if extra:
            rows, recognised = self._recognise(rows, noted, target_end)
        next_target = self._write(rows, target_end)
        return Copied(
            partition=task.partition,
            next_offset=task.end_offset,
            target_next=next_target,
            records=self._records,
            tombstones=self._tombstones,
            recognised=recognised,
            runs=joined(self._runs),
        )

    def _read(
        self, client: Client, partition: TopicPartition, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        wanted = OffsetRange(partition, start, end)
        options = RowOptions()
        topic_id = self._task.topic_id if client is self._source else None

        def read_from(offset: int) -> Iterator[FetchWindow]:
            rest = wanted._replace(start_offset=offset)
            fetched_ones = windows(
                client, rest, options, fetch_bytes=_FETCH_BYTES, topic_id=topic_id
            )
            for fetched in fetched_ones:
                yield FetchWindow(fetched.fetch_offset, fetched.records, fetched.aborted)

        seed = SystemDice().random_bytes(16)
        return record_batches(read_from, wanted, options, Pruning(), _shape(), seed=seed)

    def _recognise(
        self, rows: Iterator[pa.RecordBatch], noted: int, target_end: int
    ) -> tuple[Iterator[pa.RecordBatch], int]:
        """Skips records that the copy already has, if they match the next ones."""
        extra = target_end - noted
        there = pa.Table.from_batches(
            self._read(self._target, self._to, noted, target_end), _shape().schema
        )
        ahead = pa.Table.from_batches(rows, _shape().schema)
        same = ahead.slice(0, extra)
        names = list(_COLUMNS)
        is_same = len(there) == extra and same.select(names).equals(there.select(names))
        if not is_same:
            return iter(ahead.to_batches()), 0
        offsets = same.column("offset").to_numpy()
        self._runs += runs_of(offsets, noted)
        return iter(ahead.slice(extra).to_batches()), extra

    def _write(self, rows: Iterator[pa.RecordBatch], target_end: int) -> int:
        producer = BatchProducer(self._target)
        next_target = target_end
        for batch in rows:
            if not batch.num_rows:
                continue
            offsets = batch.column("offset").to_numpy()
            outgoing = outgoing_rows(
                batch.select(list(_COLUMNS)), self._columns, self._options, now_ms=0
            )
            numbers = np.full(batch.num_rows, self._to.partition, np.int64)
            for round_ in built_batches(outgoing, self._to.topic, numbers, self._options, producer):
                producer.send(round_)
            self._runs += runs_of(offsets, next_target)
            next_target += batch.num_rows
            self._records += batch.num_rows
            self._tombstones += batch.column("value").null_count
        end = list_offsets(self._target, {self._to: LATEST})[self._to].offset
        if end != next_target:
            raise PipelineError(
                f"{self._to} ends at {end} and not at {next_target}: another producer or another "
                "mirror writes to it"
            )
        return next_target


def _fields(names: tuple[str, ...]) -> StructType:
    known = {each.name: each for each in schema_of(Rows.RECORDS, include_headers=True).fields}
    return StructType([known[name] for name in names])


def _shape() -> Projection:
    return projection(_fields(_READ), Rows.RECORDS)
