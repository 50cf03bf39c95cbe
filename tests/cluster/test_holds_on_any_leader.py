"""Holds and missed deletes of groups whose coordinator is another broker than the leader."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.client.offsets import CommittedOffset, commit_offsets
from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.server.tombstones import cluster_offsets
from ledgerstone.server.tombstones.cluster_offsets import ClusterOffsets
from ledgerstone.testing.cluster import LedgerstoneCluster
from ledgerstone.testing.waiting import wait_until
from ledgerstone.types import TopicPartition

TP = TopicPartition("t", 0)
RETENTION_MS = 60_000
HOLD_MS = 3_600_000


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LedgerstoneCluster]:
    # Real time: nobody wants to wait for it.
    monkeypatch.setattr(cluster_offsets, "PERIOD_MS", 200)
    monkeypatch.setattr(cluster_offsets, "FRESH_MS", 2_000)
    monkeypatch.setattr(cluster_offsets, "_TIMEOUT_MS", 1_000)
    with LedgerstoneCluster(tmp_path, {"offsets.topic.num.partitions": 6}) as cluster:
        yield cluster


def make_topic(cluster: LedgerstoneCluster, **configs: str) -> None:
    known = {
        "delete.retention.ms": RETENTION_MS,
        "ledgerstone.tombstone.hold.max.ms": HOLD_MS,
    }
    cluster.topic(TP.topic, compacted=True, **known, **configs)  # type: ignore[arg-type]


def commit(cluster: LedgerstoneCluster, group: str, offset: int) -> None:
    with cluster.client() as client:
        commit_offsets(client, group, {TP: CommittedOffset(offset)})


def group_elsewhere(cluster: LedgerstoneCluster) -> str:
    """A group that another broker than the leader of the topic coordinates; offsets have several
    partitions, so there is one."""
    commit(cluster, "first", 1)
    leader = cluster.leader_of(TP.topic)
    for number in range(100):
        group = f"group-{number}"
        if coordinator_of(cluster, group) != leader:
            return group
    raise AssertionError("the leader coordinates every group")


def coordinator_of(cluster: LedgerstoneCluster, group: str) -> int:
    with cluster.client() as client:
        count = len(client.topic(CONSUMER_OFFSETS).partitions)
    return cluster.leader_of(CONSUMER_OFFSETS, partition_for(group, count))


def tombstones_left(cluster: LedgerstoneCluster) -> dict[int, list[int]]:
    """Offsets of the tombstones that each replica has, by its own last pass."""
    return {
        node_id: cluster.on(
            node_id,
            lambda run: [
                offset
                for each in run.broker.cleaning.files.ledger(
                    run.broker.partitions.get(TP).log
                ).pending
                or ()
                for offset in range(each.first_offset, each.last_offset + 1)
            ],
        )
        for node_id in cluster.running
    }


def missed_on(cluster: LedgerstoneCluster, node_id: int) -> dict[str, tuple[int, int]]:
    def look(run: RunningBroker) -> dict[str, tuple[int, int]]:
        broker = run.broker
        ledger = broker.cleaning.files.ledger(broker.partitions.get(TP).log)
        return {each.group_id: (each.first_offset, each.last_offset) for each in ledger.told}

    return cluster.on(node_id, look)


def are_known(cluster: LedgerstoneCluster, node_id: int) -> bool:
    return cluster.on(node_id, lambda run: run.broker.cleaning.holds.offsets.are_known())


def known_everywhere(cluster: LedgerstoneCluster) -> None:
    wait_until(
        lambda: all(are_known(cluster, each) for each in cluster.running), "all groups are known"
    )


def seen_everywhere(cluster: LedgerstoneCluster, group: str, offset: int) -> None:
    def seen(node_id: int) -> bool:
        found = cluster.on(
            node_id, lambda run: run.broker.cleaning.holds.offsets.committed_on(TP.topic)
        )
        return group in found and found[group][0].offset == offset

    wait_until(lambda: all(seen(each) for each in cluster.running), f"{group} is known at {offset}")


def written(cluster: LedgerstoneCluster) -> None:
    """A value at 0, its tombstone at 1, and a record behind it, on all replicas."""
    cluster.produce_batch(TP.topic, [("gone", "1"), ("gone", None), ("kept", "1")])
    cluster.wait_in_sync(TP.topic)


def passed(cluster: LedgerstoneCluster, *, horizon: bool = True) -> None:
    """One pass over each replica; the second removes tombstones, which it may once every replica
    has said that it made the first."""
    cluster.compact(TP.topic)
    if horizon:
        cluster.clock.advance(ms=RETENTION_MS + 1)


def test_tombstone_is_held_on_every_replica_for_a_group_that_another_broker_coordinates(
    cluster: LedgerstoneCluster,
) -> None:
    make_topic(cluster, ledgerstone_tombstone_hold_groups="*")
    written(cluster)
    group = group_elsewhere(cluster)
    commit(cluster, "first", 3)
    commit(cluster, group, 1)
    seen_everywhere(cluster, group, 1)
    passed(cluster)

    for _ in range(2):
        cluster.compact(TP.topic)
    held = tombstones_left(cluster)
    commit(cluster, group, 3)

    assert held == {1: [1], 2: [1], 3: [1]}
    wait_until(
        lambda: set(map(len, tombstones_left(cluster).values())) == {0},
        "the tombstone goes by itself",
        describe=lambda: str(tombstones_left(cluster)),
    )
    assert [missed_on(cluster, each) for each in (1, 2, 3)] == [{}, {}, {}]


def test_group_that_missed_a_delete_is_named_whoever_coordinates_it_and_whoever_leads(
    cluster: LedgerstoneCluster,
) -> None:
    make_topic(cluster)
    written(cluster)
    group = group_elsewhere(cluster)
    commit(cluster, "first", 3)
    commit(cluster, group, 1)
    seen_everywhere(cluster, group, 1)
    passed(cluster)

    def gone() -> bool:
        cluster.compact(TP.topic)
        return set(map(len, tombstones_left(cluster).values())) == {0}

    wait_until(gone, "the tombstone is removed everywhere")
    known_everywhere(cluster)
    leader = cluster.leader_of(TP.topic)
    before = missed_on(cluster, leader)
    cluster.kill(leader)
    wait_until(lambda: cluster.leader_of(TP.topic) != leader, "another leads")
    after = missed_on(cluster, cluster.leader_of(TP.topic))

    assert before == after == {group: (1, 1)}
    # It starts over, and nothing is left to miss.
    commit(cluster, group, 0)
    wait_until(
        lambda: missed_on(cluster, cluster.leader_of(TP.topic)) == {}, "the record is settled"
    )


def test_group_holds_after_leader_and_coordinator_have_moved(
    cluster: LedgerstoneCluster,
) -> None:
    make_topic(cluster, ledgerstone_tombstone_hold_groups="*")
    written(cluster)
    group = group_elsewhere(cluster)
    commit(cluster, "first", 3)
    commit(cluster, group, 1)
    seen_everywhere(cluster, group, 1)
    coordinator = coordinator_of(cluster, group)
    cluster.kill(coordinator)
    cluster.start(coordinator)
    cluster.wait_in_sync()
    leader = cluster.leader_of(TP.topic)
    cluster.stop(leader)
    cluster.start(leader)
    cluster.wait_in_sync()
    passed(cluster)

    known_everywhere(cluster)
    for _ in range(2):
        cluster.compact(TP.topic)
    held = tombstones_left(cluster)
    commit(cluster, group, 3)

    assert held == {1: [1], 2: [1], 3: [1]}
    wait_until(
        lambda: set(map(len, tombstones_left(cluster).values())) == {0},
        "the tombstone goes by itself",
        describe=lambda: str(tombstones_left(cluster)),
    )


def test_coordinator_that_cannot_be_asked_holds_to_the_maximum_and_then_everybody_may_have_missed(
    cluster: LedgerstoneCluster,
) -> None:
    make_topic(cluster, ledgerstone_tombstone_hold_groups="*")
    written(cluster)
    group = group_elsewhere(cluster)
    commit(cluster, "first", 3)
    commit(cluster, group, 3)
    seen_everywhere(cluster, "first", 3)
    seen_everywhere(cluster, group, 3)
    leader = cluster.leader_of(TP.topic)

    def deaf(run: RunningBroker) -> None:
        # As if nobody answered this one broker about groups.
        offsets = run.broker.cleaning.holds.offsets
        assert isinstance(offsets, ClusterOffsets)
        offsets.listener = None

    cluster.on(leader, deaf)
    wait_until(lambda: not are_known(cluster, leader), "what was told is too old")
    passed(cluster)
    for _ in range(2):
        cluster.compact(TP.topic)
    held = tombstones_left(cluster)[leader]
    cluster.clock.advance(ms=HOLD_MS)
    wait_until(lambda: not tombstones_left(cluster)[leader], "the hold is over")

    assert held == [1]
    assert missed_on(cluster, leader) == {"*": (1, 1)}
