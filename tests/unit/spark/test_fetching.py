"""How much is asked for at a time, and when a thread is worth its start."""

from collections.abc import Iterator

import pytest

from ledgerstone.client.fetcher import Fetched
from ledgerstone.protocol.messages.fetch import FetchRequest
from ledgerstone.records.builder import build_batch
from ledgerstone.spark import fetching
from ledgerstone.spark.fetching import FIRST_BYTES, windows
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.read_options import RowOptions
from ledgerstone.types import TopicPartition
from tests.unit.client.fake_cluster import FakeCluster

P0 = TopicPartition("t", 0)
MOST_BYTES = 8 << 20


def cluster_with(count: int, *, value_bytes: int) -> FakeCluster:
    """A log of batches with one record each; a fetch brings one of them."""
    cluster = FakeCluster()
    cluster.topic("t", [1])
    for _ in range(count):
        cluster.logs[P0].append(build_batch([(0, b"k", bytes(value_bytes), ())]))
    return cluster


def read(cluster: FakeCluster, end: int, *, fetch_bytes: int = MOST_BYTES) -> list[Fetched]:
    with cluster.client() as client:
        wanted = OffsetRange(P0, 0, end)
        return list(windows(client, wanted, RowOptions(), fetch_bytes=fetch_bytes))


def asked_bytes(cluster: FakeCluster) -> list[int]:
    asked = [each for _, each in cluster.requests if isinstance(each, FetchRequest)]
    for each in asked:
        assert each.topics[0].partitions[0].partition_max_bytes == each.max_bytes
    return [each.max_bytes for each in asked]


def test_after_the_first_answer_no_more_is_asked_for_than_the_range_has_left() -> None:
    cluster = cluster_with(10, value_bytes=500_000)

    found = read(cluster, 4)

    assert [each.next_offset for each in found] == [1, 2, 3, 4]
    first, *later = asked_bytes(cluster)
    assert first == FIRST_BYTES
    for left, size in zip((3, 2, 1), later, strict=True):
        assert left * 500_000 < size < (left + 1) * 500_000


def test_a_long_range_is_asked_for_by_the_size_that_was_set() -> None:
    cluster = cluster_with(60, value_bytes=300_000)

    read(cluster, 60)

    assert asked_bytes(cluster)[:20] == [FIRST_BYTES, *[MOST_BYTES] * 19]


def test_a_size_below_the_first_is_kept_to() -> None:
    cluster = cluster_with(3, value_bytes=100)

    read(cluster, 3, fetch_bytes=4096)

    assert asked_bytes(cluster) == [4096] * 3


def test_a_range_that_comes_with_one_answer_starts_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(source: Iterator[Fetched]) -> Iterator[Fetched]:
        raise AssertionError(f"a thread for {source}")

    monkeypatch.setattr(fetching, "one_ahead", refuse)

    assert [each.next_offset for each in read(cluster_with(2, value_bytes=9), 1)] == [1]
    with pytest.raises(AssertionError, match="a thread"):
        read(cluster_with(2, value_bytes=9), 2)
