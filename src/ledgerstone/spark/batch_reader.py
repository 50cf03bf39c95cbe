"""Batch reads over the wire: the driver plans ranges, tasks make rows. Shell.

Between `partitions` and `read` a reader is pickled, so it holds no connection. Names in camelCase
are dictated by Spark's data source API.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import list_offsets
from ledgerstone.spark.filters import Bounds, Pruning, pruning_of
from ledgerstone.spark.planning import OffsetRange, plan, ranges_between
from ledgerstone.spark.positions import partitions_of, resolve, topic_ids_of
from ledgerstone.spark.range_task import RangeTask
from ledgerstone.spark.read_options import FoldMode, ReadOptions, Rows
from ledgerstone.spark.schema import Projection
from ledgerstone.spark.worker import connect, settle
from ledgerstone.types import NO_OFFSET


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, shape: Projection) -> None:
        assert options.connection is not None, "a read over the wire without a broker"
        assert options.topics is not None, "a read over the wire without topics"
        self.options = options
        self.connection = options.connection
        self.topics = options.topics
        self.shape = shape
        self.pruning = Pruning()

    def partitions(self) -> list[InputPartition]:
        settle()
        options, isolation = self.options, self.options.rows.isolation
        with connect(self.connection) as client:
            known = partitions_of(client, self.topics)
            start = resolve(client, options.starting, known, isolation, what="starting")
            end = resolve(client, options.ending, known, isolation, what="ending")
            ids = topic_ids_of(client, known)
            ranges = self._pruned(client, ranges_between(start, end))
        planned = plan(ranges, options.splits)
        return [RangeTask(each, ids.get(each.partition.topic)) for each in planned]

    def _pruned(self, client: Client, ranges: list[OffsetRange]) -> list[OffsetRange]:
        folds = self.options.rows.fold is not FoldMode.NONE
        narrowed = (self.pruning.narrowed(each, folds=folds) for each in ranges)
        left = [each for each in narrowed if each is not None]
        lowest_ms = self.pruning.timestamps_ms.lowest
        if folds or not left or lowest_ms == Bounds().lowest:
            return left
        # Every record before the first one that is young enough is too old. Behind it there is no
        # order to rely on.
        first = list_offsets(client, {each.partition: max(lowest_ms, 0) for each in left})
        found = []
        for each in left:
            offset = first[each.partition].offset
            start = each.end_offset if offset == NO_OFFSET else max(offset, each.start_offset)
            if start < each.end_offset:
                found.append(each._replace(start_offset=start))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ledgerstone.spark.tasks import read_range  # with all that makes rows

        return read_range(partition, self.connection, self.options.rows, self.pruning, self.shape)


class PruningBatchReader(BatchReader):
    """The reader that gets Spark's filters. If pushdown is off, having the method is an error."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        if self.options.rows.rows is Rows.RECORDS:
            self.pruning = pruning_of(filters)
        return filters
