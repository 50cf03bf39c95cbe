"""Deletes on a replicated log: scenarios 100 to 103, on three brokers with real connections."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.broker import wait_until
from tests.kit.removal_cluster import DeletingCluster

HOLD_MS = "ledgerstone_tombstone_replica_hold_max_ms"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DeletingCluster]:
    nodes = DeletingCluster(tmp_path)
    with nodes:
        yield nodes


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[DeletingCluster]:
    """Tombstones are due at once."""
    settings = {"ledgerstone.cleaner.tombstone.lag.ms": "300"}
    with DeletingCluster(tmp_path, settings=settings) as cluster:
        cluster.start()
        yield cluster


def delete_while_away(cluster: DeletingCluster, away: int) -> int:
    """The offset of a tombstone whose value node `away` still has."""
    cluster.write(b"k", b"v")
    cluster.await_caught_up(1, 2, 3)
    cluster.kill(away)
    offset = cluster.write(b"k", None)
    cluster.write(b"other", b"1")
    return offset


def test_100_away_beyond_all_horizons_rebuilds_instead_of_bringing_the_key_back(
    cluster: DeletingCluster,
) -> None:
    cluster.start()
    cluster.create([3, 1, 2], **{HOLD_MS: "1500"})
    deleted = delete_while_away(cluster, 3)
    cluster.await_caught_up(1, 2)
    cluster.clean(1, 2)
    for node_id in (1, 2):
        cluster.await_removable(node_id, deleted + 1)
    cluster.clean(1, 2)
    for node_id in (1, 2):
        assert deleted not in [offset for offset, _, _ in cluster.content(node_id)]
        assert cluster.removed_to(node_id) == deleted + 1

    cluster.start(3)
    cluster.await_isr(1, 2, 3)
    cluster.lead(3)

    assert cluster.values(3) == {b"other": b"1"}
    assert cluster.on(3, lambda broker: cluster.removal_of(broker).rebuilds) == 1
    # It has copied a log without the tombstone, so it must not feed one that needs it.
    assert cluster.removed_to(3) == deleted + 1


@pytest.mark.slow
def test_100_away_for_less_than_the_hold_finds_the_tombstone(cluster: DeletingCluster) -> None:
    cluster.start()
    cluster.create([3, 1, 2])
    deleted = delete_while_away(cluster, 3)
    cluster.await_caught_up(1, 2)
    cluster.clean(1, 2)
    cluster.clean(1, 2)
    for node_id in (1, 2):
        assert (deleted, b"k", None) in cluster.content(node_id)

    cluster.start(3)
    cluster.await_isr(1, 2, 3)
    cluster.lead(3)

    assert cluster.values(3) == {b"other": b"1"}
    # Once it has cleaned, the tombstone goes everywhere.
    cluster.await_caught_up(1, 2, 3)
    cluster.clean(3)
    for node_id in (3, 1, 2):
        cluster.await_removable(node_id, deleted + 1)
        cluster.clean(node_id)
        assert deleted not in [offset for offset, _, _ in cluster.content(node_id)]
    assert all(
        cluster.on(each, lambda b: cluster.removal_of(b).rebuilds) == 0 for each in (1, 2, 3)
    )


@pytest.mark.slow
def test_101_tombstone_stays_while_a_replica_has_not_cleaned(cluster: DeletingCluster) -> None:
    cluster.lazy = 3
    cluster.start()
    cluster.create([1, 2, 3], **{HOLD_MS: "1000"})
    cluster.write(b"k", b"v")
    deleted = cluster.write(b"k", None)
    cluster.write(b"other", b"1")
    cluster.await_caught_up(1, 2, 3)

    for _ in range(3):
        cluster.clean(1, 2)

    assert (deleted, b"k", None) in cluster.content(1)
    assert (deleted, b"k", None) in cluster.content(2)
    standing = cluster.on(1, lambda broker: cluster.removal_of(broker).standing())
    assert standing is not None
    assert standing.holder == "replica 3 is clean to offset 0"
    # It reports, so it is waited for, however long that takes.
    assert standing.given_up == ()


@pytest.mark.slow
def test_102_reassigned_away_and_back_with_its_old_directory_starts_over(
    cluster: DeletingCluster,
) -> None:
    cluster.start()
    cluster.create([1, 2, 3])
    deleted = delete_while_away(cluster, 3)
    cluster.reassign(1, 2)
    cluster.await_isr(1, 2)
    cluster.await_caught_up(1, 2)
    cluster.clean(1, 2)
    for node_id in (1, 2):
        cluster.await_removable(node_id, deleted + 1)
    cluster.clean(1, 2)
    cluster.reassign(3, 1, 2)

    cluster.start(3)
    cluster.await_isr(1, 2, 3)
    cluster.lead(3)

    assert cluster.values(3) == {b"other": b"1"}


@pytest.mark.slow
def test_103_unclean_election_below_what_was_clean_removes_nothing_early(
    cluster: DeletingCluster,
) -> None:
    cluster.start()
    cluster.create([2, 1], **{"unclean_leader_election_enable": "true"})
    cluster.write(b"k", b"v")
    cluster.await_caught_up(1, 2)
    cluster.kill(2)
    for number in range(4):
        cluster.write(b"other", b"%d" % number)
    cluster.clean(1)
    assert cluster.on(1, lambda broker: cluster.removal_of(broker).clean_to) == 5
    cluster.kill(1)

    cluster.start(2)
    cluster.lead(2, unclean=True)
    deleted = cluster.write(b"k", None)
    assert deleted == 1
    cluster.clean(2)
    cluster.clean(2)

    # Node 1 was clean beyond this offset once, but not in this history.
    assert (deleted, b"k", None) in cluster.content(2)
    cluster.start(1)
    wait_until(lambda: cluster.end(1) == 2, "node 1 has followed", 30)
    assert cluster.values(1) == {}


def test_a_delete_on_a_quiet_topic_ends_on_every_replica_though_nobody_asks_for_a_pass(
    hasty: DeletingCluster,
) -> None:
    """Each replica waits for the others, so that followers must know by themselves what is due."""
    hasty.create([1, 2, 3])
    hasty.write(b"k", b"v")
    hasty.write(b"k", None)
    hasty.await_caught_up(1, 2, 3)

    def is_gone() -> bool:
        return all(hasty.content(each) == [] for each in (1, 2, 3))

    wait_until(is_gone, "the delete has ended", 25)
