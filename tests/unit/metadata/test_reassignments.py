"""AlterPartitionReassignments and ListPartitionReassignments: what is refused, what is listed."""

import pytest

from ledgerstone.metadata.image import ResourceType
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterReassignmentsPartition,
    AlterReassignmentsTopic,
)
from ledgerstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestTopic,
    ListPartitionReassignmentsResponse,
)
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
)
from tests.unit.metadata.cluster import a_topic
from tests.unit.metadata.led_cluster import NO_LEADER, LedCluster, a_directory


@pytest.mark.parametrize(
    "replicas", [[], [1, 1], [1, 9]], ids=["none", "one twice", "one that is not registered"]
)
def test_an_assignment_that_cannot_be_is_refused(replicas: list[int]) -> None:
    cluster = LedCluster([1, 2, 3])

    assert cluster.reassign(replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert not cluster.partition().is_reassigning


def test_a_broker_whose_directories_are_all_cordoned_takes_no_replica() -> None:
    cluster = LedCluster([1, 2], brokers=3)
    change = BrokerRegistrationChangeRecord(3, cluster.epoch(3), cordoned_log_dirs=[a_directory(3)])
    cluster.commit([change])

    assert cluster.reassign([1, 3]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    (created,) = cluster.create(a_topic("u", assignments={0: [1, 3]}))
    assert created.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_unknown_topics_and_partitions_are_refused() -> None:
    cluster = LedCluster([1, 2, 3])

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.reassign([1], 7) == unknown
    assert cluster.reassign(None, topic="nowhere") == unknown


def test_another_replication_factor_can_be_forbidden() -> None:
    cluster = LedCluster([1, 2, 3], brokers=6)
    refused = ErrorCode.INVALID_REPLICATION_FACTOR

    assert cluster.reassign([1, 2], may_change_factor=False) == refused
    assert cluster.reassign([4, 5, 6], may_change_factor=False) == ErrorCode.NONE
    # Six replicas while it runs, but it will end with three.
    assert cluster.reassign([1, 2, 3, 4, 5, 6], may_change_factor=False) == refused
    assert cluster.reassign([1, 5, 6], may_change_factor=False) == ErrorCode.NONE


def test_replicas_may_move_to_a_broker_that_is_fenced() -> None:
    cluster = LedCluster([1, 2, 3], brokers=4)
    cluster.fence(4)

    assert cluster.reassign([1, 2, 4]) == ErrorCode.NONE
    assert cluster.led() == (1, [1, 2, 3])


def test_moving_replicas_holds_no_unclean_election() -> None:
    cluster = LedCluster([1, 2], brokers=3)
    cluster.fence(1)
    cluster.fence(2)
    cluster.unfence(1)
    # Allowed from now on, without the election that follows from it.
    unclean = ConfigRecord(ResourceType.TOPIC, "t", "unclean.leader.election.enable", "true")
    cluster.commit([unclean])

    assert cluster.reassign([1, 2, 3]) == ErrorCode.NONE

    assert cluster.led() == (NO_LEADER, [2])


def test_a_replica_that_has_not_arrived_has_to_when_more_are_wanted() -> None:
    """Otherwise the move ends with it out of sync, and the old replicas go."""
    cluster = LedCluster([1], brokers=4)
    assert cluster.reassign([2, 3]) == ErrorCode.NONE
    assert cluster.reassign([2, 3, 4]) == ErrorCode.NONE
    assert cluster.partition().adding_replicas == (2, 3, 4)

    cluster.alter([1, 4])
    assert cluster.partition().replicas == (2, 3, 4, 1)
    cluster.alter([1, 4, 2, 3])

    assert cluster.partition().replicas == (2, 3, 4)
    assert not cluster.partition().is_reassigning


def test_a_cancelled_move_leaves_no_replica_that_has_not_arrived() -> None:
    cluster = LedCluster([1], brokers=4)
    cluster.reassign([2])
    cluster.reassign([2, 3])

    assert cluster.reassign(None) == ErrorCode.NONE
    assert cluster.partition().replicas == (1,)


def test_a_partition_named_twice_is_moved_once() -> None:
    cluster = LedCluster([1, 2, 3], brokers=5)
    wanted = [AlterReassignmentsPartition(0, [1, 2, 4]), AlterReassignmentsPartition(0, [1, 2, 5])]
    request = AlterPartitionReassignmentsRequest(topics=[AlterReassignmentsTopic("t", wanted)])

    response = cluster.carry_out(cluster.controller.alter_reassignments(request))

    codes = [each.error_code for each in response.responses[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert cluster.partition().adding_replicas == (4,)


def test_the_replicas_there_are_need_no_record() -> None:
    cluster = LedCluster([1, 2, 3])
    before = cluster.partition()

    assert cluster.reassign([1, 2, 3]) == ErrorCode.NONE
    assert cluster.partition() == before


def test_a_new_replica_goes_where_its_broker_puts_new_ones() -> None:
    cluster = LedCluster([1, 2, 3], brokers=4)

    cluster.reassign([4, 1, 2])

    partition = cluster.partition()
    assert partition.directory_of(4) == cluster.image.brokers[4].log_dirs[0]
    assert partition.directory_of(1) == cluster.image.brokers[1].log_dirs[0]


def _list(
    cluster: LedCluster, topics: list[ListPartitionReassignmentsRequestTopic] | None
) -> ListPartitionReassignmentsResponse:
    request = ListPartitionReassignmentsRequest(topics=topics)
    return cluster.carry_out(cluster.controller.list_reassignments(request))


def test_only_what_moves_is_listed() -> None:
    cluster = LedCluster([1, 2, 3], [1, 2, 3], brokers=4)
    cluster.reassign([4, 2, 3], 1)

    for topics in (None, [ListPartitionReassignmentsRequestTopic("t", [0, 1, 7])]):
        (topic,) = _list(cluster, topics).topics
        (found,) = topic.partitions
        assert (topic.name, found.partition_index) == ("t", 1)
        assert (found.replicas, found.adding_replicas) == ([4, 2, 3, 1], [4])
        assert found.removing_replicas == [1]
    assert _list(cluster, [ListPartitionReassignmentsRequestTopic("x", [0])]).topics == []


def test_what_is_decided_but_not_committed_is_not_listed() -> None:
    cluster = LedCluster([1, 2, 3], brokers=4)
    wanted = AlterReassignmentsPartition(0, [4, 2, 3])
    request = AlterPartitionReassignmentsRequest(topics=[AlterReassignmentsTopic("t", [wanted])])
    decision = cluster.controller.alter_reassignments(request)
    applied = cluster.controller.preview(decision.records)
    cluster.controller.decided_on(applied)

    assert (
        cluster.controller.list_reassignments(
            ListPartitionReassignmentsRequest(topics=None)
        ).response.topics
        == []
    )
    cluster.controller.committed_to(applied)
    assert _list(cluster, None).topics
