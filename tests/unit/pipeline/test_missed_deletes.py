"""Whether a pipeline has missed deletes, where not every broker says what it removed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import CommittedOffset, commit_offsets
from ledgerstone.pipeline import missed_deletes
from ledgerstone.pipeline.definition import Source
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.missed_deletes import MissedDeletesCheck
from ledgerstone.types import TopicPartition
from tests.unit.client.fake_cluster import FakeCluster

TOLD, SILENT = TopicPartition("t", 0), TopicPartition("t", 1)
POSITIONS = {0: 5, 1: 5}
RETENTION_MS = 1_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """One of its two leaders tells what it has removed; the other's API cannot be reached."""
    made = FakeCluster((1, 2))
    made.topic("t", [1, 2])
    made.describes_once({"cleanup.policy": "compact", "delete.retention.ms": str(RETENTION_MS)})
    monkeypatch.setattr(missed_deletes, "removed_below", lambda _, topic: {TOLD: 0})
    return made


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


def source() -> Source:
    content = {
        "name": "people",
        "source": {"topic": "t", "group": "g"},
        "key": {"format": "string", "column": "id"},
        "value": {"format": "string", "column": "said"},
        "table": {"type": "sqlite", "path": "table.db"},
        "work": "work",
    }
    return define(content, directory=Path()).source


def check(client: Client, tmp_path: Path) -> list[str]:
    return [str(each) for each in MissedDeletesCheck(client, source(), tmp_path).check(POSITIONS)]


def read_and_go_away(cluster: FakeCluster, client: Client, away_ms: int) -> None:
    read = CommittedOffset(5, metadata=f'{{"at_ms": {cluster.clock.now_ms()}}}')
    commit_offsets(client, "g", {TOLD: read, SILENT: read})
    cluster.clock.advance(ms=away_ms)


def test_partition_that_nobody_tells_about_is_judged_by_time(
    cluster: FakeCluster, client: Client, tmp_path: Path
) -> None:
    read_and_go_away(cluster, client, RETENTION_MS + 1)

    (missed,) = check(client, tmp_path)

    assert missed.startswith("t-1 at offset 5: nothing was read for 1001 ms")


def test_partition_that_nobody_tells_about_was_read_in_time(
    cluster: FakeCluster, client: Client, tmp_path: Path
) -> None:
    read_and_go_away(cluster, client, RETENTION_MS)

    assert check(client, tmp_path) == []


def test_what_was_repaired_is_not_missed_again(
    cluster: FakeCluster, client: Client, tmp_path: Path
) -> None:
    read_and_go_away(cluster, client, RETENTION_MS + 1)

    MissedDeletesCheck(client, source(), tmp_path).settled(POSITIONS)

    assert check(client, tmp_path) == []
