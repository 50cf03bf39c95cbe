"""The index of partitions: kept from deltas, equal to a full count, dropped with the leadership."""

from ledgerstone.metadata.partition_index import PartitionIndex
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest
from ledgerstone.protocol.messages.metadata_records import PartitionRecord, TopicRecord
from tests.unit.metadata.cluster import a_topic
from tests.unit.metadata.led_cluster import LedCluster, a_directory


def _index(cluster: LedCluster) -> PartitionIndex:
    index = cluster.controller.partitions.index
    index.check_invariants()
    return index


def test_it_says_where_a_broker_is_in_sync_what_it_leads_and_what_its_directory_holds() -> None:
    cluster = LedCluster([1, 2], [2, 3])

    index = _index(cluster)

    assert index.in_isr[2] == {("t", 0), ("t", 1)}
    assert index.leading == {1: 1, 2: 1}
    assert index.by_directory[a_directory(3)] == {("t", 1)}
    assert not index.imbalanced | index.leaderless | index.reassigning


def test_it_follows_topics_that_come_grow_and_go_also_in_one_batch() -> None:
    cluster = LedCluster([1, 2])
    index = _index(cluster)
    grow = CreatePartitionsRequest(topics=[CreatePartitionsTopic("t", 3)])

    cluster.carry_out(cluster.controller.create_partitions(grow))
    cluster.create(a_topic("u", assignments={0: [3, 1]}))
    assert _index(cluster) is index

    # The same name again, with other replicas, in the batch that deletes it.
    gone = cluster.controller.delete_topics(DeleteTopicsRequest(topic_names=["t", "u"])).records
    other_id = bytes([9]) * 16
    partition = PartitionRecord(
        0, other_id, replicas=[3, 2], isr=[3, 2], leader=3, directories=[a_directory(3)] * 2
    )
    cluster.commit([*gone, TopicRecord("t", other_id), partition])
    assert _index(cluster) is index
    assert index.in_isr == {3: {("t", 0)}, 2: {("t", 0)}}
    assert index.leading == {3: 1}


def test_it_follows_leaders_and_moves() -> None:
    cluster = LedCluster([1, 2], brokers=3)
    index = _index(cluster)
    cluster.fence(1)
    cluster.reassign([2, 3])
    assert _index(cluster).reassigning == {("t", 0)}
    cluster.fence(2)
    assert _index(cluster).leaderless == {("t", 0)}
    assert index.leading == {}
    assert _index(cluster) is index


def test_a_node_that_resigns_forgets_what_was_never_committed() -> None:
    cluster = LedCluster([1, 2], brokers=3)
    before = _index(cluster)
    wanted = CreatePartitionsRequest(topics=[CreatePartitionsTopic("t", 5)])
    decision = cluster.controller.create_partitions(wanted)
    cluster.controller.decided_on(cluster.controller.preview(decision.records))
    assert sum(before.leading.values()) == 5

    cluster.controller.resign()

    assert sum(_index(cluster).leading.values()) == 1
