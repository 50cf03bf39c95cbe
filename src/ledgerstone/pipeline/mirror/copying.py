"""Copies one partition from one cluster to another for one round. Shell; on an executor.

Keys, values, headers and times stay the same; offsets do not, so the result maps them. The mirror
is the copy's only writer, but for tombstones of erasures there: records after the recorded end come
from an attempt that died before it could report. If they match what would be written now, they are
not written again.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ledgerstone.client.blocking import Client
from ledgerstone.client.errors import BrokerUnreachable, CallTimedOut
from ledgerstone.client.offsets import LATEST, list_offsets
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError
from ledgerstone.pipeline.connecting import connect_to, security_options
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.mirror.marks import CarriedErasure, carried, erasure_ids, is_copied
from ledgerstone.pipeline.mirror.offsets import CopiedRun, Int64s, joined, runs_of
from ledgerstone.pipeline.mirror.reading import (
    COPIED,
    fields_of,
    read_rows,
    read_table,
    shape_of,
)
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.spark.outgoing import built_batches, outgoing_rows
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.producing import BatchProducer
from ledgerstone.spark.write_options import WriteOptions, write_columns, write_options
from ledgerstone.types import TopicPartition

# A broker is away, or another one leads by now: the next round tries again.
PASSING = (KafkaError, BrokerUnreachable, CallTimedOut, WriteFailed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    source: str  # bootstrap
    target: str
    partition: TopicPartition  # of the original
    target_topic: str
    start_offset: int
    end_offset: int
    target_next: int | None  # where the copy ends as far as is noted; None: nothing is
    copy_id: str  # of the copy's topic
    topic_id: str | None = None  # of the original
    compression: str = "none"
    # Files with the client's properties for each, by Kafka's names.
    source_config: str | None = None
    target_config: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    partition: TopicPartition
    next_offset: int  # of the original
    target_next: int
    records: int
    tombstones: int
    recognised: int  # found in the copy, written by a try that could not tell
    runs: list[CopiedRun] = field(default_factory=list)
    erasures: list[CarriedErasure] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    """What was asked for one partition was not done, or only a part of it."""

    partition: TopicPartition
    reason: str

    def __str__(self) -> str:
        return f"{self.partition}: {self.reason}"


def copy_partition(task: CopyTask) -> Copied | TaskFailed:
    try:
        with (
            connect_to(task.source, task.source_config) as source,
            connect_to(task.target, task.target_config) as target,
        ):
            return _Copy(task, source, target).run()
    except PASSING as error:
        return TaskFailed(partition=task.partition, reason=f"{type(error).__name__}: {error}")


class _Copy:
    def __init__(self, task: CopyTask, source: Client, target: Client) -> None:
        self._task, self._source, self._target = task, source, target
        self._to = TopicPartition(task.target_topic, task.partition.partition)
        raw = {
            **security_options(task.target_config),
            "kafka.bootstrap.servers": task.target,
            "topic": task.target_topic,
            "kafka.compression.type": task.compression,
        }
        self._options: WriteOptions = write_options(raw, overwrite=False)
        self._columns = write_columns(fields_of(COPIED), self._options)
        self._runs: list[CopiedRun] = []
        self._erasures: list[CarriedErasure] = []
        self._records = 0
        self._tombstones = 0

    def run(self) -> Copied:
        task = self._task
        target_end = self._target_end()
        noted = target_end if task.target_next is None else task.target_next
        if target_end < noted:
            raise PipelineError(
                f"{self._to} ends at {target_end} and was written up to {noted}: it is not the "
                "topic that was mirrored; start over with another work directory"
            )
        wanted = OffsetRange(task.partition, task.start_offset, task.end_offset)
        rows = read_rows(self._source, wanted, topic_id=task.topic_id)
        recognised = 0
        if noted < target_end:
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
            erasures=self._erasures,
        )

    def _recognise(
        self, rows: Iterator[pa.RecordBatch], noted: int, target_end: int
    ) -> tuple[Iterator[pa.RecordBatch], int]:
        """Skips records that the copy already has, if they match the next ones."""
        there = read_table(self._target, OffsetRange(self._to, noted, target_end))
        ahead = pa.Table.from_batches(rows, shape_of().schema)
        is_whole = len(there) == target_end - noted  # nothing of it was compacted
        there = there.filter(is_copied(there, erasure_ids(ahead), self._task.copy_id))
        same, names = ahead.slice(0, len(there)), list(COPIED)
        if not is_whole or not same.select(names).equals(there.select(names)):
            return iter(ahead.to_batches()), 0
        self._note(same, there.column("offset").to_numpy())
        return iter(ahead.slice(len(there)).to_batches()), len(there)

    def _write(self, rows: Iterator[pa.RecordBatch], target_end: int) -> int:
        """Where the copy ends afterwards."""
        producer = BatchProducer(self._target)
        next_target = target_end
        for batch in rows:
            if not batch.num_rows:
                continue
            outgoing = outgoing_rows(
                batch.select(list(COPIED)), self._columns, self._options, now_ms=0
            )
            numbers = np.full(batch.num_rows, self._to.partition, np.int64)
            places: list[Int64s] = []
            for round_ in built_batches(outgoing, self._to.topic, numbers, self._options, producer):
                base_offset = producer.send(round_)[self._to]
                self._check_between(next_target, base_offset)
                next_target = base_offset + round_[self._to][0]
                places.append(np.arange(base_offset, next_target))
            self._note(batch, np.concatenate(places))
            self._records += batch.num_rows
            self._tombstones += batch.column("value").null_count
        end = self._target_end()
        self._check_between(next_target, end)
        return end

    def _note(self, rows: pa.RecordBatch | pa.Table, target_offsets: Int64s) -> None:
        self._runs += runs_of(rows.column("offset").to_numpy(), target_offsets)
        self._erasures += carried(rows, target_offsets)

    def _check_between(self, expected: int, found: int) -> None:
        """Records that others wrote in between may only be tombstones of erasures there."""
        if expected == found:
            return
        if found > expected:
            there = read_table(self._target, OffsetRange(self._to, expected, found))
            if not is_copied(there, (), self._task.copy_id).true_count:
                return
        raise PipelineError(
            f"{self._to} goes on at {found} and not at {expected}: another producer or another "
            "mirror writes to it"
        )

    def _target_end(self) -> int:
        return list_offsets(self._target, {self._to: LATEST})[self._to].offset
