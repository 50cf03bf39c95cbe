"""Reads records of one partition as columns. Shell over a `Client`; on an executor."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from ledgerstone.client.blocking import Client
from ledgerstone.spark.fetching import windows
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.read_options import RowOptions, Rows
from ledgerstone.spark.schema import Projection, projection, schema_of
from ledgerstone.spark.windows import FetchWindow, record_batches
from ledgerstone.system import SystemDice

_FETCH_BYTES: Final = 8 << 20
# What is copied, and where it was.
COPIED: Final = ("key", "value", "timestamp", "headers")
READ: Final = ("key", "value", "offset", "timestamp", "headers")


def fields_of(names: tuple[str, ...]) -> StructType:
    known = {each.name: each for each in schema_of(Rows.RECORDS, include_headers=True).fields}
    return StructType([known[name] for name in names])


def shape_of(names: tuple[str, ...] = READ) -> Projection:
    return projection(fields_of(names), Rows.RECORDS)


def read_rows(
    client: Client,
    wanted: OffsetRange,
    *,
    topic_id: str | None = None,
    options: RowOptions | None = None,
    names: tuple[str, ...] = READ,
) -> Iterator[pa.RecordBatch]:
    """Committed records; with a `topic_id`, of no other topic of the same name."""
    rows = options or RowOptions()

    def read_from(offset: int) -> Iterator[FetchWindow]:
        rest = wanted._replace(start_offset=offset)
        fetched_ones = windows(client, rest, rows, fetch_bytes=_FETCH_BYTES, topic_id=topic_id)
        for fetched in fetched_ones:
            yield FetchWindow(fetched.fetch_offset, fetched.records, fetched.aborted)

    seed = SystemDice().random_bytes(16)
    return record_batches(read_from, wanted, rows, Pruning(), shape_of(names), seed=seed)


def read_table(client: Client, wanted: OffsetRange) -> pa.Table:
    return pa.Table.from_batches(read_rows(client, wanted), shape_of().schema)
