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
from ledgerstone.client.transactions import ProducerTransactions
from ledgerstone.client.txn_session import Prepared
from ledgerstone.errors import ConfigError, LedgerstoneError
from ledgerstone.spark.decision import WriteId
from ledgerstone.spark.delivery import AtLeastOnce, Delivery, NotedDelivery, WrittenRow
from ledgerstone.spark.encoding import Int64s, partitions_by_key
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.spark.outgoing import Outgoing, built_batches, outgoing_rows
from ledgerstone.spark.producing import BatchProducer
from ledgerstone.spark.two_phase import (
    Standing,
    TaskTransaction,
    abort_alone,
    abort_batch,
    commit_alone,
    commit_batch,
)
from ledgerstone.spark.worker import connect, settle
from ledgerstone.spark.write_options import PartOf, WriteColumns, WriteOptions, write_columns
from ledgerstone.types import TopicPartition

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


class TaskWritten(WriterCommitMessage):
    """What a task has written; with `exactlyOnce`, in the transaction that it has prepared."""

    def __init__(
        self,
        task: WriteId,
        records: Mapping[TopicPartition, int],
        prepared: Prepared | None = None,
    ) -> None:
        self.task = task
        self.records = dict(records)
        self.prepared = prepared


class BatchSink(DataSourceArrowWriter):
    """One `df.write`. Its id is made on the driver and goes to every task, unless the write is part
    of a micro-batch: that has an id, which survives a restart."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.write_options = options
        self.columns = write_columns(schema, options)
        self.part_of = options.part_of or PartOf(uuid4().hex, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = WriteId(*self.part_of, _task_context().partitionId())
        return write_rows(iterator, self.write_options, self.columns, task)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        is_alone = self.write_options.part_of is None
        if self.write_options.exactly_once:
            commit_tasks(self.write_options, messages, is_alone=is_alone)
        if is_alone:
            self._forget(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        is_alone = self.write_options.part_of is None
        if self.write_options.exactly_once:
            if is_alone:
                self._abort_alone(len(messages))
            else:
                abort_tasks(self.write_options, messages)
        elif is_alone:
            self._forget(messages)

    def _abort_alone(self, count: int) -> None:
        """Its notes stay until they expire: tasks may still begin."""
        tasks = [WriteId(*self.part_of, number) for number in range(count)]
        with connect(self.write_options.connection) as client:
            abort_alone(client, tasks, at=self.write_options.noted_at)

    def _forget(self, messages: list[WriterCommitMessage | None]) -> None:
        """A finished write is never resumed; its notes can be deleted."""
        with connect(self.write_options.connection) as client:
            for message in messages:
                if isinstance(message, TaskWritten):
                    _delete(client, message.task.group_id)


class StreamSink(DataSourceStreamArrowWriter):
    """One micro-batch. Spark makes another one for its commit, so nothing is kept here."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.write_options = options
        self.columns = write_columns(schema, options)
        if options.part_of is not None:
            raise ConfigError("txnAppId", options.part_of.app_id, "a streaming query has its own")

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
        """Without transactions there is nothing to commit: every record is acknowledged when its
        task ends."""
        if self.write_options.exactly_once:
            commit_tasks(self.write_options, messages, is_alone=False)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Without transactions, written records stay; the next attempt of the batch skips them."""
        if self.write_options.exactly_once:
            abort_tasks(self.write_options, messages)


def commit_tasks(
    options: WriteOptions, messages: list[WriterCommitMessage | None], *, is_alone: bool
) -> None:
    told = [each for each in messages if isinstance(each, TaskWritten)]
    if told:
        task = told[0].task
        with connect(options.connection) as client:
            if is_alone:
                commit_alone(client, _prepared_by(told))
                return
            commit_batch(
                client, task.query_id, task.batch_id, _prepared_by(told), at=options.noted_at
            )


def abort_tasks(options: WriteOptions, messages: list[WriterCommitMessage | None]) -> None:
    told = [each for each in messages if isinstance(each, TaskWritten)]
    if told:
        with connect(options.connection) as client:
            task = told[0].task
            abort_batch(
                client, task.query_id, task.batch_id, _prepared_by(told), at=options.noted_at
            )


def _prepared_by(told: list[TaskWritten]) -> dict[int, Prepared]:
    return {each.task.partition_id: each.prepared for each in told if each.prepared is not None}


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
        if options.exactly_once:
            return _prepare_rows(client, batches, options, columns, task)
        writer = TaskWriter(client, options, task)
        for batch in batches:
            writer.write(outgoing_rows(batch, columns, options, client.clock.now_ms()))
        return TaskWritten(task, writer.records())


def _prepare_rows(
    client: Client,
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    columns: WriteColumns,
    task: WriteId,
) -> TaskWritten:
    transaction = TaskTransaction(
        client, task, at=options.noted_at, timeout_ms=options.transaction_timeout_ms
    )
    standing: Standing | None = None
    writer = TaskWriter(client, options, task, transaction.transactions)
    try:
        for batch in batches:
            if batch.num_rows and standing is None:
                standing = transaction.begin()
            # Rows that are already there are read to the end: Spark expects that of a writer.
            if standing is Standing.OPEN:
                writer.write(outgoing_rows(batch, columns, options, client.clock.now_ms()))
        if standing is not Standing.OPEN:
            return TaskWritten(task, {})
        return TaskWritten(task, writer.records(), transaction.prepare())
    except BaseException:
        transaction.give_up()
        raise


class TaskWriter:
    """Sends the rows of one task, in order, to their partitions."""

    def __init__(
        self,
        client: Client,
        options: WriteOptions,
        task: WriteId,
        transactions: ProducerTransactions | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._task = task
        self._transactions = transactions
        self._producer: BatchProducer | None = None
        self._delivery: Delivery = AtLeastOnce()
        self._already: dict[str, Counter[WrittenRow]] = {}
        self._partition_counts: dict[str, int] = {}

    def records(self) -> dict[TopicPartition, int]:
        written = {} if self._producer is None else self._producer.written
        return {partition: total.records for partition, total in written.items()}

    def write(self, rows: Outgoing) -> None:
        for topic, some in rows.by_topic():
            already = self._known_of(topic)
            numbers = self._partition_numbers(topic, some)
            left, to = _without(already, some, numbers) if already else (some, numbers)
            for round_ in built_batches(left, topic, to, self._options, self._started()):
                self._started().send(round_)

    def _started(self) -> BatchProducer:
        if self._producer is None:
            # A task without rows connects to nothing.
            self._producer = BatchProducer(self._client, self._transactions)
            if self._transactions is None and self._options.deduplicate:
                producer_id = self._producer.identity.producer_id
                self._delivery = NotedDelivery(self._client, self._task, producer_id)
        return self._producer

    def _known_of(self, topic: str) -> Counter[WrittenRow]:
        if topic not in self._already:
            self._started()
            self._already[topic] = self._delivery.begin(topic)
            self._partition_counts[topic] = len(self._client.topic(topic).partitions)
        return self._already[topic]

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


def _without(
    already: Counter[WrittenRow], rows: Outgoing, numbers: Int64s
) -> tuple[Outgoing, Int64s]:
    """The rows that are not there yet, and where they go. Rows may be equal but for the partition
    that they name, or for their headers: each is looked for as it would be written."""
    left = []
    for row, number in enumerate(numbers.tolist()):
        headers = () if rows.headers is None else tuple(rows.headers[row])
        content = WrittenRow(number, rows.keys.bytes_at(row), rows.values.bytes_at(row), headers)
        if already[content] > 0:
            already[content] -= 1
        else:
            left.append(row)
    chosen = np.array(left, np.int64)
    return rows.take(chosen), numbers[chosen]
