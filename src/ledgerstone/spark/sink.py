"""Writes rows as records. Shell; runs in executors.

A null value is a tombstone. A row goes to the partition it names, else to its key's partition
(murmur2, as in the Java client), else to one that changes from task to task.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ledgerstone.client.blocking import Client
from ledgerstone.client.groups import delete_group
from ledgerstone.errors import LedgerstoneError
from ledgerstone.spark.delivery import AtLeastOnce, Content, Delivery, NotedDelivery, WriteId
from ledgerstone.spark.encoding import Int64s, partitions_by_key
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.spark.outgoing import Outgoing, built_batches, outgoing_rows
from ledgerstone.spark.producing import BatchProducer, WrittenTotals
from ledgerstone.spark.worker import connect, settle
from ledgerstone.spark.write_options import WriteColumns, WriteOptions, write_columns
from ledgerstone.types import TopicPartition

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


class TaskWritten(WriterCommitMessage):
    def __init__(self, group_id: str, records: Mapping[TopicPartition, int]) -> None:
        self.group_id = group_id
        self.records = dict(records)


class BatchSink(DataSourceArrowWriter):
    """One `df.write`. Its id is made on the driver and goes to every task."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.write_options = options
        self.columns = write_columns(schema, options)
        self.write_id = uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = WriteId(self.write_id, 0, _task_context().partitionId())
        return write_rows(iterator, self.write_options, self.columns, task)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._forget(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._forget(messages)

    def _forget(self, messages: list[WriterCommitMessage | None]) -> None:
        """A finished write is never resumed; its notes can be deleted."""
        with connect(self.write_options.connection) as client:
            for message in messages:
                if isinstance(message, TaskWritten):
                    _delete(client, message.group_id)


class StreamSink(DataSourceStreamArrowWriter):
    """One micro-batch. Spark makes another one for its commit, so nothing is kept here."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.write_options = options
        self.columns = write_columns(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task_context()
        query_id, batch_id = (
            context.getLocalProperty(_QUERY_ID),
            context.getLocalProperty(_BATCH_ID),
        )
        if query_id is None or batch_id is None:
            raise WriteFailed(
                f"not in a streaming query: {_QUERY_ID}={query_id} {_BATCH_ID}={batch_id}"
            )
        task = WriteId(query_id, int(batch_id), context.partitionId())
        return write_rows(iterator, self.write_options, self.columns, task)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Every record is acknowledged when its task ends; there is nothing to commit."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Written records stay; the next attempt of the batch skips them."""


def _task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "a sink writes in a task"
    return context


def _delete(client: Client, group_id: str) -> None:
    try:
        delete_group(client, group_id)
    except LedgerstoneError:
        # The note expires by itself; a successful write must not fail because of it.
        return


def write_rows(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    columns: WriteColumns,
    task: WriteId,
) -> TaskWritten:
    settle()
    with connect(options.connection) as client:
        writer = TaskWriter(client, options, task)
        for batch in batches:
            writer.write(outgoing_rows(batch, columns, options, client.clock.now_ms()))
        records = {each: total.records for each, total in writer.written.items()}
    return TaskWritten(task.group_id, records)


class TaskWriter:
    """Sends the rows of one task, in order, to their partitions."""

    def __init__(self, client: Client, options: WriteOptions, task: WriteId) -> None:
        self._client = client
        self._options = options
        self._task = task
        self._producer: BatchProducer | None = None
        self._delivery: Delivery = AtLeastOnce()
        self._already: dict[str, Counter[Content]] = {}
        self._partition_counts: dict[str, int] = {}

    @property
    def written(self) -> Mapping[TopicPartition, WrittenTotals]:
        return {} if self._producer is None else self._producer.written

    def write(self, rows: Outgoing) -> None:
        for topic, some in rows.by_topic():
            left = self._without_known(topic, some)
            numbers = self._partition_numbers(topic, left)
            for round_ in built_batches(left, topic, numbers, self._options, self._started()):
                self._started().send(round_)

    def _started(self) -> BatchProducer:
        if self._producer is None:
            # A task without rows connects to nothing.
            self._producer = BatchProducer(self._client)
            if self._options.deduplicate:
                producer_id = self._producer.identity.producer_id
                self._delivery = NotedDelivery(self._client, self._task, producer_id)
        return self._producer

    def _without_known(self, topic: str, rows: Outgoing) -> Outgoing:
        if topic not in self._already:
            self._started()
            self._already[topic] = self._delivery.begin(topic)
            self._partition_counts[topic] = len(self._client.topic(topic).partitions)
        already = self._already[topic]
        if not already:
            return rows
        left = []
        for row in range(len(rows)):
            content = (rows.keys.bytes_at(row), rows.values.bytes_at(row))
            if already[content] > 0:
                already[content] -= 1
            else:
                left.append(row)
        return rows.take(np.array(left, np.int64))

    def _partition_numbers(self, topic: str, rows: Outgoing) -> Int64s:
        count = self._partition_counts[topic]
        numbers = partitions_by_key(rows.keys, count)
        numbers = np.where(numbers < 0, self._task.partition_id % count, numbers)
        numbers = np.where(rows.partition < 0, numbers, rows.partition)
        if len(numbers) and numbers.max() >= count:
            raise WriteFailed(
                f"topic {topic} has {count} partitions, a row asks for {numbers.max()}"
            )
        return numbers
