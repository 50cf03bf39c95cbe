"""Directories of replicas: which one a new replica has, AssignReplicasToDirs, and failed ones."""

import pytest

from ledgerstone.metadata.directory_changes import MAX_ASSIGNMENTS
from ledgerstone.metadata.image import LOST, MIGRATING, UNASSIGNED, BrokerImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectory,
    AssignReplicasToDirsRequestPartition,
    AssignReplicasToDirsRequestTopic,
    AssignReplicasToDirsResponse,
)
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.unit.metadata.led_cluster import NO_LEADER, LedCluster, a_directory


def _broker(*log_dirs: bytes) -> BrokerImage:
    return BrokerImage(
        broker_id=1, broker_epoch=0, incarnation_id=bytes(16), endpoints=(), log_dirs=log_dirs
    )


def test_a_broker_with_several_directories_chooses_by_itself() -> None:
    one, two = a_directory(1, 0), a_directory(1, 1)

    assert _broker(one).default_directory == one
    assert _broker(one, two).default_directory == UNASSIGNED
    assert _broker().default_directory == MIGRATING


def test_a_directory_that_is_not_known_yet_counts_as_online_and_a_lost_one_does_not() -> None:
    one, two = a_directory(1, 0), a_directory(1, 1)
    broker = _broker(one)

    online = [each for each in (MIGRATING, UNASSIGNED, LOST, one, two) if broker.has_online(each)]

    assert online == [MIGRATING, UNASSIGNED, one]
    assert _broker().has_online(two)


def _assign(
    cluster: LedCluster,
    directory: bytes,
    *numbers: int,
    broker_id: int = 1,
    topic_id: bytes | None = None,
    epoch: int | None = None,
) -> AssignReplicasToDirsResponse:
    partitions = [AssignReplicasToDirsRequestPartition(number) for number in numbers]
    topic = AssignReplicasToDirsRequestTopic(
        topic_id or cluster.image.topics["t"].topic_id, partitions
    )
    request = AssignReplicasToDirsRequest(
        broker_id,
        cluster.epoch(broker_id) if epoch is None else epoch,
        [AssignReplicasToDirsRequestDirectory(directory, [topic])],
    )
    return cluster.carry_out(cluster.controller.assign_replicas_to_dirs(request))


def _codes(response: AssignReplicasToDirsResponse) -> list[int]:
    assert response.error_code == ErrorCode.NONE
    return [
        each.error_code
        for directory in response.directories
        for topic in directory.topics
        for each in topic.partitions
    ]


def test_a_broker_says_where_its_replica_is() -> None:
    cluster = LedCluster([1, 2], directories=2)
    assert cluster.partition().directories == (UNASSIGNED, UNASSIGNED)

    assert _codes(_assign(cluster, a_directory(1, 1), 0)) == [ErrorCode.NONE]

    partition = cluster.partition()
    assert partition.directories == (a_directory(1, 1), UNASSIGNED)
    assert (partition.partition_epoch, partition.leader_epoch) == (1, 0)


def test_the_codes_of_single_replicas() -> None:
    cluster = LedCluster([1, 2], [2, 3], directories=2)

    unknown = _assign(cluster, a_directory(1), 0, topic_id=bytes([7]) * 16)
    assert _codes(unknown) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert _codes(_assign(cluster, a_directory(1), 0, 1, 9)) == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.parametrize(
    ("epoch", "count", "code"),
    [
        (-1, 1, ErrorCode.STALE_BROKER_EPOCH),
        (None, MAX_ASSIGNMENTS + 1, ErrorCode.INVALID_REQUEST),
        (None, MAX_ASSIGNMENTS, ErrorCode.NONE),
    ],
)
def test_the_codes_of_the_whole_request(epoch: int | None, count: int, code: ErrorCode) -> None:
    cluster = LedCluster([1, 2], directories=2)

    assert _assign(cluster, a_directory(1), *[0] * count, epoch=epoch).error_code == code


def test_a_replica_in_a_directory_that_has_failed_meanwhile_leads_no_more() -> None:
    cluster = LedCluster([1, 2], directories=2)
    cluster.fail_directories(1, a_directory(1, 1))

    assert _codes(_assign(cluster, a_directory(1, 1), 0)) == [ErrorCode.NONE]

    assert cluster.led() == (2, [2])
    assert cluster.partition().directory_of(1) == a_directory(1, 1)


def test_two_brokers_that_name_one_directory_do_no_harm() -> None:
    cluster = LedCluster([1, 2], directories=2)
    for broker_id in (1, 2):
        answer = _assign(cluster, a_directory(1, 1), 0, broker_id=broker_id)
        assert _codes(answer) == [ErrorCode.NONE]
    assert cluster.partition().directories == (a_directory(1, 1),) * 2

    for number in (0, 1):
        assert _codes(_assign(cluster, a_directory(2, number), 0, broker_id=2)) == [ErrorCode.NONE]
    assert _codes(_assign(cluster, a_directory(1, 1), 0, broker_id=2)) == [ErrorCode.NONE]
    cluster.ask(DeleteTopicsRequest(topic_names=["t"]))

    cluster.controller.partitions.index.check_invariants()
    assert cluster.image.topics == {}


def test_67_only_the_partitions_of_a_failed_directory_move() -> None:
    cluster = LedCluster([1, 2], [1, 2], directories=2)
    _assign(cluster, a_directory(1, 0), 0)
    _assign(cluster, a_directory(1, 1), 1)

    cluster.fail_directories(1, a_directory(1, 0))

    assert cluster.led(0) == (2, [2])
    assert cluster.led(1) == (1, [1, 2])


def test_67_a_single_replica_in_a_failed_directory_stays_offline() -> None:
    cluster = LedCluster([1], directories=2)
    _assign(cluster, a_directory(1, 0), 0)
    cluster.fail_directories(1, a_directory(1, 0))
    assert cluster.led() == (NO_LEADER, [1])

    cluster.fence(1)
    cluster.unfence(1)
    assert cluster.led() == (NO_LEADER, [1])

    cluster.register(1, directories=2)
    cluster.unfence(1)
    assert cluster.led() == (1, [1])


def test_a_directory_that_fails_as_its_broker_comes_back_is_not_led_from() -> None:
    """The heartbeat that asks to be unfenced is the first to name it."""
    cluster = LedCluster([1, 2], directories=2, elr=True, configs={"min.insync.replicas": "2"})
    _assign(cluster, a_directory(1, 0), 0)
    _assign(cluster, a_directory(2, 0), 0, broker_id=2)
    cluster.fence(2)
    cluster.fence(1)
    assert cluster.partition().eligible_leader_replicas == (1, 2)

    def beat(broker_id: int, *offline: bytes) -> bool:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=cluster.epoch(broker_id),
            current_metadata_offset=len(cluster.log),
            offline_log_dirs=list(offline),
        )
        response = cluster.ask(request)
        assert response.error_code == ErrorCode.NONE
        return bool(response.is_fenced)

    failed = a_directory(1, 0)
    while beat(1, failed):
        assert failed not in cluster.image.brokers[1].log_dirs
    assert cluster.led() == (NO_LEADER, [])
    assert not beat(2)

    assert cluster.led() == (2, [2])
