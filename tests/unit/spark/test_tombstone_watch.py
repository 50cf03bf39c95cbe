"""Whether a restarted query has missed deletes, where not every broker says what it removed."""

import pytest

from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import CommittedOffset, commit_offsets
from ledgerstone.spark import tombstone_watch
from ledgerstone.spark.errors import MissedTombstones
from ledgerstone.spark.read_options import OnMissedTombstones
from ledgerstone.spark.tombstone_watch import TombstoneWatch
from ledgerstone.types import TopicPartition
from tests.unit.client.fake_cluster import FakeCluster

TOLD, SILENT = TopicPartition("t", 0), TopicPartition("t", 1)
RETENTION_MS = 1_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """One of its two leaders tells what it has removed; the other's API cannot be reached."""
    made = FakeCluster((1, 2))
    made.topic("t", [1, 2])
    made.describes_once({"cleanup.policy": "compact", "delete.retention.ms": str(RETENTION_MS)})
    monkeypatch.setattr(tombstone_watch, "removed_below", lambda _, topic: {TOLD: 0})
    return made


def check_after(cluster: FakeCluster, away_ms: int) -> None:
    with cluster.client() as client:
        publish(client, cluster.clock.now_ms())
        cluster.clock.advance(ms=away_ms)
        watch = TombstoneWatch(OnMissedTombstones.FAIL, "g")
        watch.check(client, {TOLD: 5, SILENT: 5})


def publish(client: Client, now_ms: int) -> None:
    read = CommittedOffset(5, metadata=f'{{"at_ms": {now_ms}}}')
    commit_offsets(client, "g", {TOLD: read, SILENT: read})


def test_partition_that_nobody_tells_about_is_judged_by_time(cluster: FakeCluster) -> None:
    with pytest.raises(
        MissedTombstones, match="t-1 at offset 5: nothing was read for 1001 ms"
    ) as it:
        check_after(cluster, RETENTION_MS + 1)

    assert "t-0" not in str(it.value)


def test_partition_that_nobody_tells_about_was_read_in_time(cluster: FakeCluster) -> None:
    check_after(cluster, RETENTION_MS)
