"""What one task reads, and the reading. Shell; runs in a Python worker of an executor.

A task is a range of offsets of one partition: picklable, without a connection.
"""

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ledgerstone.client.blocking import Client
from ledgerstone.spark.fetching import windows
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.gaps import gap_batches
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.read_options import Connection, RowOptions, Rows
from ledgerstone.spark.schema import Projection
from ledgerstone.spark.windows import ReadFrom, Window, record_batches
from ledgerstone.spark.worker import connect, settle
from ledgerstone.system import SystemDice

logger = logging.getLogger(__name__)


class RangeTask(InputPartition):
    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(None)
        self.wanted = wanted

    def __repr__(self) -> str:
        return f"RangeTask({self.wanted})"


def read_range(
    task: InputPartition,
    connection: Connection,
    rows: RowOptions,
    pruning: Pruning,
    shape: Projection,
) -> Iterator[pa.RecordBatch]:
    settle()
    if not isinstance(task, RangeTask):
        return  # Spark makes one task out of none, and gives it nothing to do.
    with connect(connection) as client:
        read_from = _over_the_wire(client, connection, task.wanted, rows)
        yield from rows_of(read_from, task.wanted, rows, pruning, shape)


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
    client: Client, connection: Connection, wanted: OffsetRange, rows: RowOptions
) -> ReadFrom:
    def read_from(offset: int) -> Iterator[Window]:
        rest = wanted._replace(start_offset=offset)
        for fetched in windows(client, rest, rows, fetch_bytes=connection.fetch_bytes):
            yield Window(fetched.fetch_offset, fetched.records, fetched.aborted)

    return read_from
