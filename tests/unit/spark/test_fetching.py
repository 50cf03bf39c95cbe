"""How much is asked for at a time, and when a thread is worth its start."""

from collections.abc import Iterator

import pytest

from ledgerstone.client.fetcher import Fetched
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.spark import fetching
from ledgerstone.spark.errors import DataLoss
from ledgerstone.spark.fetching import FIRST_BYTES, windows
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.read_options import RowOptions
from ledgerstone.types import TopicPartition
from tests.unit.client.fake_cluster import FakeCluster, topic_id_of

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


def of_a_new_leader(high_watermark: int) -> FetchResponse:
    """It has the records, but its followers have not told yet how far they are."""
    partition = FetchPartitionResponse(
        partition_index=0,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=0,
        records=b"",
    )
    topic = FetchTopicResponse(topic_id=topic_id_of("t"), partitions=[partition])
    return FetchResponse(responses=[topic])


@pytest.mark.parametrize("fails", [True, False])
def test_a_new_leader_that_does_not_know_yet_what_is_committed_has_lost_nothing(
    fails: bool,
) -> None:
    cluster = cluster_with(3, value_bytes=9)
    cluster.once(FetchRequest, of_a_new_leader(0))
    unsettled = ListOffsetsResponsePartition(error_code=ErrorCode.OFFSET_NOT_AVAILABLE)
    cluster.once(
        ListOffsetsRequest,
        ListOffsetsResponse(topics=[ListOffsetsResponseTopic("t", [unsettled])]),
    )

    with cluster.client() as client:
        rows = RowOptions(fail_on_data_loss=fails)
        found = list(windows(client, OffsetRange(P0, 0, 3), rows, fetch_bytes=MOST_BYTES))

    assert [each.next_offset for each in found] == [1, 2, 3]


def test_a_log_that_ends_below_the_range_has_lost_the_rest() -> None:
    cluster = cluster_with(3, value_bytes=9)

    with pytest.raises(DataLoss, match="ends at 3, read up to 3"):
        read(cluster, 5)
