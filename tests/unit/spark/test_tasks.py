"""Tasks of one process: they share a client, unless one of them went wrong."""

import pytest

from ledgerstone.client.cluster import Endpoint
from ledgerstone.records.builder import build_batch
from ledgerstone.spark import tasks
from ledgerstone.spark.errors import DataLoss
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.range_task import RangeTask, SharedTask
from ledgerstone.spark.read_options import Connection, FoldMode, RowOptions, Rows
from ledgerstone.spark.schema import projection, schema_of
from ledgerstone.spark.worker import kept_client
from ledgerstone.types import TopicPartition
from tests.unit.client.fake_cluster import FakeCluster

P0 = TopicPartition("t", 0)
CONNECTION = Connection(bootstrap=(Endpoint("nowhere", 9092),))
SHAPE = projection(schema_of(Rows.RECORDS, include_headers=False), Rows.RECORDS)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    made.topic("t", [1])
    for _ in range(3):
        made.logs[P0].append(build_batch([(0, b"k", b"v", ())]))
    client = made.client()
    monkeypatch.setattr(tasks, "kept_client", lambda connection: client)
    monkeypatch.setattr(tasks, "settle", lambda: None)  # pytest's own objects are not to be frozen
    return made


def rows_of(start: int, end: int) -> int:
    task = RangeTask(OffsetRange(P0, start, end))
    batches = tasks.read_range(task, CONNECTION, RowOptions(), Pruning(), SHAPE)
    return sum(batch.num_rows for batch in batches)


def test_the_next_task_of_a_process_neither_connects_nor_asks_who_leads(
    cluster: FakeCluster,
) -> None:
    rows_of(0, 2)
    dialed, asked = len(cluster.dialed), len(cluster.requests)

    assert rows_of(2, 3) == 1

    assert len(cluster.dialed) == dialed
    assert len(cluster.requests) == asked + 1


def test_a_task_after_one_that_failed_has_connections_of_its_own(cluster: FakeCluster) -> None:
    rows_of(0, 2)
    with pytest.raises(DataLoss):
        rows_of(0, 9)
    dialed = len(cluster.dialed)

    assert rows_of(0, 3) == 3

    assert len(cluster.dialed) > dialed


def test_a_process_keeps_the_client_of_one_cluster() -> None:
    first = kept_client(CONNECTION)
    same = kept_client(Connection(bootstrap=CONNECTION.bootstrap))
    other = kept_client(Connection(bootstrap=(Endpoint("elsewhere", 9092),)))

    assert first is same
    assert first is not other


def test_a_shared_task_reads_its_ranges_one_after_the_other(cluster: FakeCluster) -> None:
    parts = [RangeTask(OffsetRange(P0, 2, 3)), RangeTask(OffsetRange(P0, 0, 1))]

    batches = tasks.read_range(SharedTask(parts), CONNECTION, RowOptions(), Pruning(), SHAPE)

    assert [offset for each in batches for offset in each["offset"].to_pylist()] == [2, 0]


def test_offsets_below_the_log_start_are_deleted_also_where_all_of_a_range_is(
    cluster: FakeCluster,
) -> None:
    cluster.logs[P0].start_offset = 3
    rows = RowOptions(rows=Rows.GAPS, fail_on_data_loss=False)
    shape = projection(schema_of(Rows.GAPS, include_headers=False), Rows.GAPS)
    task = RangeTask(OffsetRange(P0, 0, 2))

    (found,) = tasks.read_range(task, CONNECTION, rows, Pruning(), shape)

    (gap,) = found.to_pylist()
    assert (gap["startOffset"], gap["endOffset"], gap["reason"]) == (0, 2, "deleted")


@pytest.mark.parametrize("fold", list(FoldMode))
def test_range_below_the_log_start_has_no_rows(cluster: FakeCluster, fold: FoldMode) -> None:
    cluster.logs[P0].start_offset = 3
    rows = RowOptions(fail_on_data_loss=False, fold=fold)
    task = RangeTask(OffsetRange(P0, 0, 2))

    assert list(tasks.read_range(task, CONNECTION, rows, Pruning(), SHAPE)) == []
