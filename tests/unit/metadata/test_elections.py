"""ElectLeaders: who leads next, and when nobody has to."""

import pytest

from ledgerstone.metadata import elections
from ledgerstone.metadata.change_record import LeaderRecoveryState
from ledgerstone.metadata.elections import ElectionType
from ledgerstone.metadata.image import NO_LEADER
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartition,
)
from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord
from tests.unit.metadata.cluster import Cluster, a_topic

PREFERRED, UNCLEAN = ElectionType


def _cluster(*, leader: int, isr: list[int]) -> Cluster:
    """t-0 on brokers 1, 2, 3 with this leader and ISR, t-1 as it was made."""
    cluster = Cluster(brokers=3)
    cluster.create(a_topic(assignments={0: [1, 2, 3], 1: [1, 2, 3]}))
    topic_id = cluster.image.topics["t"].topic_id
    cluster.commit(
        [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader, isr=isr)]
    )
    return cluster


def _elect(cluster: Cluster, election: int, *partitions: int, topic: str = "t") -> dict[int, int]:
    wanted = [ElectLeadersTopicPartition(topic, list(partitions))]
    response = _request(cluster, ElectLeadersRequest(election, wanted))
    (result,) = response.replica_election_results
    assert result.topic == topic
    return {each.partition_id: each.error_code for each in result.partition_result}


def _request(cluster: Cluster, request: ElectLeadersRequest) -> ElectLeadersResponse:
    return cluster.carry_out(cluster.controller.elect_leaders(request))


def test_the_preferred_leader_is_the_first_replica_and_starts_a_new_epoch() -> None:
    cluster = _cluster(leader=2, isr=[1, 2])
    before = cluster.image.topics["t"].partitions[0]

    assert _elect(cluster, PREFERRED, 0) == {0: ErrorCode.NONE}

    after = cluster.image.topics["t"].partitions[0]
    assert (after.leader, after.isr) == (1, (1, 2))
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1


def test_no_election_is_needed_where_the_preferred_leader_leads() -> None:
    cluster = _cluster(leader=2, isr=[1, 2])

    assert _elect(cluster, PREFERRED, 1, 0) == {1: ErrorCode.ELECTION_NOT_NEEDED, 0: ErrorCode.NONE}


def test_a_preferred_leader_that_is_out_of_sync_is_not_available() -> None:
    assert _elect(_cluster(leader=2, isr=[2]), PREFERRED, 0) == {
        0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    }


def test_a_preferred_leader_that_is_fenced_is_not_available() -> None:
    cluster = _cluster(leader=2, isr=[1, 2])
    cluster.fence(1)

    assert _elect(cluster, PREFERRED, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_an_unclean_election_is_not_needed_while_somebody_leads() -> None:
    assert _elect(_cluster(leader=2, isr=[2]), UNCLEAN, 0) == {0: ErrorCode.ELECTION_NOT_NEEDED}


def test_an_unclean_election_takes_an_in_sync_replica_where_there_is_one() -> None:
    cluster = _cluster(leader=NO_LEADER, isr=[3, 2])

    assert _elect(cluster, UNCLEAN, 0) == {0: ErrorCode.NONE}

    after = cluster.image.topics["t"].partitions[0]
    assert (after.leader, after.isr) == (2, (3, 2))
    assert after.leader_recovery_state == LeaderRecoveryState.RECOVERED


def test_an_unclean_leader_is_alone_in_sync_and_marked_as_recovering() -> None:
    cluster = _cluster(leader=NO_LEADER, isr=[3])
    cluster.fence(3)

    assert _elect(cluster, UNCLEAN, 0) == {0: ErrorCode.NONE}

    after = cluster.image.topics["t"].partitions[0]
    assert (after.leader, after.isr) == (1, (1,))
    assert after.leader_recovery_state == LeaderRecoveryState.RECOVERING


def test_without_an_active_replica_nobody_is_elected() -> None:
    cluster = _cluster(leader=NO_LEADER, isr=[3])
    for broker_id in (1, 2, 3):
        cluster.fence(broker_id)

    assert _elect(cluster, UNCLEAN, 0) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_unknown_topics_and_partitions_are_refused() -> None:
    cluster = _cluster(leader=2, isr=[2])

    assert _elect(cluster, PREFERRED, 7) == {7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert _elect(cluster, PREFERRED, 0, topic="x") == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_unknown_type_is_refused_as_a_whole() -> None:
    response = _request(_cluster(leader=2, isr=[2]), ElectLeadersRequest(election_type=2))

    assert (response.error_code, response.replica_election_results) == (
        ErrorCode.INVALID_REQUEST,
        [],
    )


def test_without_a_list_only_partitions_that_need_an_election_are_answered() -> None:
    cluster = _cluster(leader=2, isr=[1, 2])
    cluster.create(a_topic("u", assignments={0: [2]}))

    response = _request(cluster, ElectLeadersRequest(election_type=PREFERRED))

    (result,) = response.replica_election_results
    assert (result.topic, [each.partition_id for each in result.partition_result]) == ("t", [0])


def test_a_partition_named_twice_is_elected_once() -> None:
    cluster = _cluster(leader=2, isr=[1, 2])
    wanted = [ElectLeadersTopicPartition("t", [0, 0]), ElectLeadersTopicPartition("t", [0])]

    decision = cluster.controller.elect_leaders(ElectLeadersRequest(PREFERRED, wanted))

    assert len(decision.records) == 1


def test_more_elections_than_a_request_may_change_are_refused_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elections, "MAX_RECORDS_PER_REQUEST", 0)
    cluster = _cluster(leader=2, isr=[1, 2])

    decision = cluster.controller.elect_leaders(ElectLeadersRequest(election_type=PREFERRED))

    assert decision.records == []
    assert decision.response.error_code == ErrorCode.POLICY_VIOLATION
