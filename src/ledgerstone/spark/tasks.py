"""The reading of one task. Shell; runs in a Python worker of an executor."""

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ledgerstone.client.blocking import Client
from ledgerstone.spark.fetching import windows
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.gaps import gap_batches
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.range_task import RangeTask, SharedTask
from ledgerstone.spark.read_options import Connection, RowOptions, Rows
from ledgerstone.spark.schema import Projection
from ledgerstone.spark.windows import FetchWindow, ReadFrom, record_batches
from ledgerstone.spark.worker import kept_client, settle
from ledgerstone.system import SystemDice

logger = logging.getLogger(__name__)


def read_range(
    task: InputPartition,
    connection: Connection,
    rows: RowOptions,
    pruning: Pruning,
    shape: Projection,
) -> Iterator[pa.RecordBatch]:
    if isinstance(task, SharedTask):
        for part in task.parts:
            yield from read_range(part, connection, rows, pruning, shape)
        return
    if not isinstance(task, RangeTask):
        return  # Spark makes one task out of none, and gives it nothing to do.
    client = kept_client(connection)
    read_from = _over_the_wire(client, connection, task, rows)
    try:
        yield from rows_of(read_from, task.wanted, rows, pruning, shape)
    except BaseException:
        client.close()  # The next task must not inherit a broken connection.
        raise
    settle()


def rows_of(
    read_from: ReadFrom,
    wanted: OffsetRange,
    rows: RowOptions,
    pruning: Pruning,
    shape: Projection,
) -> Iterator[pa.RecordBatch]:
    if rows.rows is Rows.GAPS:
        return gap_batches(read_from(wanted.start_offset), wanted, rows, shape)
    seed = SystemDice().random_bytes(16)
    return record_batches(read_from, wanted, rows, pruning, shape, seed=seed)


def _over_the_wire(
    client: Client, connection: Connection, task: RangeTask, rows: RowOptions
) -> ReadFrom:
    def read_from(offset: int) -> Iterator[FetchWindow]:
        rest = task.wanted._replace(start_offset=offset)
        fetch_bytes, topic_id = connection.fetch_bytes, task.topic_id
        for fetched in windows(client, rest, rows, fetch_bytes=fetch_bytes, topic_id=topic_id):
            yield FetchWindow(fetched.fetch_offset, fetched.records, fetched.aborted)

    return read_from
