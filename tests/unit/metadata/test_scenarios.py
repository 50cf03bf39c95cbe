"""Scenarios 47 to 63 of the cluster's fact sheet, as far as partitions are concerned, by number."""

from typing import Any

import pytest

from ledgerstone.metadata.change_record import LeaderRecoveryState
from ledgerstone.protocol.error_codes import ErrorCode
from tests.unit.metadata.cluster import a_topic
from tests.unit.metadata.led_cluster import NO_LEADER, LedCluster

MIN_2: dict[str, str | None] = {"min.insync.replicas": "2"}


def test_47_brokers_are_fenced_one_by_one_and_leaders_are_right_after_each() -> None:
    cluster = LedCluster([1, 2, 3], [2, 3, 1], [3, 1, 2])

    cluster.fence(1)
    assert [cluster.led(number) for number in range(3)] == [(2, [2, 3]), (2, [2, 3]), (3, [3, 2])]

    cluster.fence(2)
    assert [cluster.led(number) for number in range(3)] == [(3, [3])] * 3

    cluster.fence(3)
    assert [cluster.led(number) for number in range(3)] == [(NO_LEADER, [3])] * 3


def test_47_a_silent_broker_is_fenced_by_time_and_another_at_the_next_call() -> None:
    cluster = LedCluster([1, 2, 3], [2, 3, 1])
    # No broker of this cluster is in the controller's own process.
    cluster.controller.sessions._own_id = None
    cluster.controller.lead(now_ms=0, next_offset=len(cluster.log))
    for broker_id in (3,):
        cluster.controller.sessions.contact(broker_id, cluster.epoch(broker_id), 9_000)

    leaders = []
    while (decision := cluster.controller.due(9_001)) is not None:
        cluster.commit(decision.records)
        leaders.append([cluster.led(number)[0] for number in range(2)])

    assert leaders == [[2, 2], [3, 3]]


def test_48_a_new_controller_gives_every_broker_a_whole_session() -> None:
    cluster = LedCluster([1, 2, 3])
    cluster.controller.sessions._own_id = None
    cluster.controller.lead(now_ms=100_000, next_offset=len(cluster.log))

    assert cluster.controller.due(109_000) is None
    assert cluster.controller.due(109_001) is not None


def test_49_a_controlled_shutdown_moves_every_leader_at_once() -> None:
    cluster = LedCluster([1, 2, 3], [1, 3, 2])
    before = cluster.partition().leader_epoch

    cluster.shut_down(1)

    assert [cluster.led(number) for number in range(2)] == [(2, [2, 3]), (3, [3, 2])]
    assert cluster.partition().leader_epoch == before + 1
    assert not cluster.controller.partitions.leads_something(1)


def test_50_with_one_replica_a_shutdown_leaves_no_leader_until_it_is_back() -> None:
    cluster = LedCluster([1])
    before = cluster.partition().leader_epoch

    cluster.shut_down(1)
    assert cluster.led() == (NO_LEADER, [1])

    cluster.restart(1, stopped_cleanly=True)
    assert cluster.led() == (1, [1])
    assert cluster.partition().leader_epoch == before + 2


def test_51_a_new_incarnation_is_out_of_the_isr_first_and_rejoins_by_fetching() -> None:
    cluster = LedCluster([1, 2, 3])

    cluster.restart(1, stopped_cleanly=False)
    assert cluster.led() == (2, [2, 3])

    assert cluster.alter([2, 3, 1]).error_code == ErrorCode.NONE
    assert cluster.led() == (2, [2, 3, 1])


def test_52_the_last_member_stays_in_the_isr_and_only_it_can_lead_again() -> None:
    cluster = LedCluster([1, 2])
    cluster.fence(1)
    cluster.fence(2)
    assert cluster.led() == (NO_LEADER, [2])

    cluster.unfence(1)
    assert cluster.led() == (NO_LEADER, [2])

    cluster.unfence(2)
    assert cluster.led() == (2, [2])


def test_53_eligible_replicas_are_collected_and_lead_cleanly() -> None:
    cluster = LedCluster([1, 2, 3], elr=True, configs=MIN_2)

    cluster.fence(3)
    assert cluster.partition().eligible_leader_replicas == ()
    cluster.fence(2)
    assert cluster.partition().eligible_leader_replicas == (2,)
    cluster.fence(1)
    partition = cluster.partition()
    assert (partition.leader, partition.isr) == (NO_LEADER, ())
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((1, 2), (1,))

    # Broker 3 left while the others went on: it may lack what they have.
    cluster.unfence(3)
    assert cluster.led() == (NO_LEADER, [])
    cluster.unfence(2)
    partition = cluster.partition()
    assert (partition.leader, partition.isr) == (2, (2,))
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((1,), ())
    assert partition.leader_recovery_state == LeaderRecoveryState.RECOVERED


def test_53_an_isr_that_is_large_enough_again_needs_no_eligible_ones() -> None:
    cluster = LedCluster([1, 2, 3], elr=True, configs=MIN_2)
    cluster.fence(3)
    cluster.fence(2)
    cluster.unfence(3)

    cluster.alter([1, 3])

    assert cluster.partition().eligible_leader_replicas == ()


def test_54_an_eligible_replica_that_restarts_uncleanly_is_none_any_more() -> None:
    cluster = LedCluster([1, 2, 3], elr=True, configs=MIN_2)
    cluster.fence(3)
    cluster.fence(2)

    cluster.restart(2, stopped_cleanly=False)

    assert cluster.partition().eligible_leader_replicas == ()


def test_54_one_that_stopped_cleanly_stays_eligible() -> None:
    cluster = LedCluster([1, 2, 3], elr=True, configs=MIN_2)
    cluster.fence(3)
    cluster.fence(2)

    cluster.restart(2, stopped_cleanly=True)

    assert cluster.partition().eligible_leader_replicas == (2,)


def test_54_when_all_were_lost_the_last_leader_leads_and_says_that_it_recovers() -> None:
    cluster = LedCluster([1, 2], elr=True, configs=MIN_2)
    cluster.fence(2)
    cluster.fence(1)
    cluster.restart(2, stopped_cleanly=False)
    assert cluster.led() == (NO_LEADER, [])

    cluster.restart(1, stopped_cleanly=False)

    partition = cluster.partition()
    assert (partition.leader, partition.isr) == (1, (1,))
    assert partition.leader_recovery_state == LeaderRecoveryState.RECOVERING


def test_55_another_min_isr_clears_what_was_collected_under_the_old_one() -> None:
    cluster = LedCluster([1, 2, 3], elr=True, configs=MIN_2)
    cluster.fence(3)
    cluster.fence(2)
    before = cluster.partition()
    assert before.eligible_leader_replicas == (2,)

    assert cluster.configure("min.insync.replicas", "1") == ErrorCode.NONE

    after = cluster.partition()
    assert after.eligible_leader_replicas == ()
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch == before.leader_epoch


def test_55_partitions_without_eligible_replicas_keep_their_epochs() -> None:
    cluster = LedCluster([1, 2, 3], elr=True, configs=MIN_2)
    before = cluster.partition()

    assert cluster.configure("min.insync.replicas", "3") == ErrorCode.NONE

    assert cluster.partition() == before


def test_55_the_setting_of_all_brokers_clears_every_topic() -> None:
    cluster = LedCluster([1, 2, 3], elr=True)
    assert cluster.configure("min.insync.replicas", "2", topic="") == ErrorCode.NONE
    cluster.create(a_topic("u", assignments={0: [2, 1, 3]}))
    cluster.fence(3)
    cluster.fence(2)
    assert cluster.partition(0, "u").eligible_leader_replicas == (2,)

    assert cluster.configure("min.insync.replicas", "3", topic="") == ErrorCode.NONE

    assert cluster.partition(0, "t").eligible_leader_replicas == ()
    assert cluster.partition(0, "u").eligible_leader_replicas == ()


@pytest.mark.parametrize(("elr", "code"), [(True, ErrorCode.INVALID_CONFIG), (False, 0)])
def test_55_the_setting_of_all_brokers_stays_set_while_eligible_replicas_are_kept(
    elr: bool, code: int
) -> None:
    cluster = LedCluster([1, 2, 3], elr=elr)
    cluster.configure("min.insync.replicas", "2", topic="")

    assert cluster.configure("min.insync.replicas", None, topic="") == code


def test_56_without_unclean_elections_a_partition_stays_offline() -> None:
    cluster = LedCluster([1, 2])
    cluster.fence(1)
    cluster.fence(2)
    cluster.unfence(1)
    cluster.pass_time()
    assert cluster.led() == (NO_LEADER, [2])

    assert cluster.configure("unclean.leader.election.enable", "true") == ErrorCode.NONE

    partition = cluster.partition()
    assert (partition.leader, partition.isr) == (1, (1,))
    assert partition.leader_recovery_state == LeaderRecoveryState.RECOVERING


def test_56_the_leader_says_itself_when_it_has_recovered() -> None:
    cluster = LedCluster([1, 2], configs={"unclean.leader.election.enable": "true"})
    cluster.fence(1)
    cluster.fence(2)
    cluster.unfence(1)
    recovering = LeaderRecoveryState.RECOVERING
    assert cluster.partition().leader_recovery_state == recovering

    refused = cluster.alter([1, 2], leader_recovery_state=recovering)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert cluster.alter([1]).error_code == ErrorCode.NONE
    assert cluster.partition().leader_recovery_state == LeaderRecoveryState.RECOVERED


def test_57_a_preferred_leader_that_is_back_leads_again_after_the_interval() -> None:
    cluster = LedCluster([1, 2, 3])
    cluster.fence(1)
    cluster.unfence(1)
    cluster.alter([2, 3, 1])

    assert cluster.controller.due(299_999) is None
    cluster.pass_time()

    assert cluster.led() == (1, [2, 3, 1])


def test_57_a_pass_moves_a_thousand_and_a_full_one_is_followed_at_once() -> None:
    cluster = LedCluster(*[[1, 2]] * 2500, brokers=2)
    cluster.fence(1)
    cluster.unfence(1)
    request = cluster.alter_request([2, 1])
    for number in range(1, 2500):
        request.topics[0].partitions += cluster.alter_request([2, 1], number).topics[0].partitions
    cluster.carry_out(cluster.controller.alter_partition(request))

    sizes = []
    while (decision := cluster.controller.due(300_000)) is not None:
        cluster.commit(decision.records)
        sizes.append(len(decision.records))

    assert sizes == [1000, 1000, 500]
    assert {cluster.led(number)[0] for number in range(2500)} == {1}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"topic_id": bytes([9]) * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 2, "partition_epoch": 0}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 0, "partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 0, "sender": 3}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"sender": 3, "partition_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"partition_epoch": 0, "isr": [2, 4]}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"isr": [2, 4]}, ErrorCode.INVALID_REQUEST),
        ({"isr": [2, 2]}, ErrorCode.INVALID_REQUEST),
        ({"isr": [3]}, ErrorCode.INVALID_REQUEST),
        ({"isr": []}, ErrorCode.INVALID_REQUEST),
        ({"isr": [2, 1], "leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"isr": [2], "leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"isr": [2], "leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        ({"isr": [2, 1]}, ErrorCode.INELIGIBLE_REPLICA),
        ({"isr": [2, 3]}, ErrorCode.NONE),
    ],
)
def test_58_the_codes_of_alter_partition_in_their_order(
    changed: dict[str, Any], code: ErrorCode
) -> None:
    """Each case is wrong in what it names and, where it can be, in what is checked after that."""
    cluster = LedCluster([1, 2, 3], brokers=4)
    cluster.fence(1)
    before = cluster.partition()
    isr = changed.pop("isr", [2, 3])
    assert isinstance(isr, list)

    answer = cluster.alter(isr, **changed)

    assert answer.error_code == code
    assert cluster.partition() == before


def test_58_a_sender_of_another_epoch_is_refused_as_a_whole() -> None:
    cluster = LedCluster([1, 2, 3])
    request = cluster.alter_request([1])
    request.broker_epoch -= 1

    response = cluster.carry_out(cluster.controller.alter_partition(request))

    assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_58_version_2_names_members_without_epochs() -> None:
    cluster = LedCluster([1, 2, 3])

    answer = cluster.alter([], new_isr=[1, 3])

    assert (answer.error_code, answer.isr) == (ErrorCode.NONE, [1, 3])


def test_58_an_equal_isr_is_a_success_without_a_record() -> None:
    cluster = LedCluster([1, 2, 3])
    before = cluster.partition()

    answer = cluster.alter([1, 2, 3])

    assert (answer.error_code, answer.partition_epoch) == (ErrorCode.NONE, before.partition_epoch)
    assert cluster.partition() == before


def test_58_the_answer_is_what_the_partition_is_afterwards() -> None:
    cluster = LedCluster([1, 2, 3])

    answer = cluster.alter([1])

    after = cluster.partition()
    assert (answer.leader_id, answer.leader_epoch) == (1, after.leader_epoch)
    assert (answer.isr, answer.partition_epoch) == ([1], after.partition_epoch)
    # A smaller ISR is no reason for followers to look at their logs again.
    assert after.leader_epoch == 0


def test_58_a_partition_that_a_request_names_twice_is_changed_once() -> None:
    cluster = LedCluster([1, 2, 3])
    request = cluster.alter_request([1])
    request.topics[0].partitions += cluster.alter_request([1, 2]).topics[0].partitions

    response = cluster.carry_out(cluster.controller.alter_partition(request))

    codes = [each.error_code for each in response.topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert cluster.led() == (1, [1])


@pytest.mark.parametrize("event", ["fence", "shut_down", "unregister"])
def test_59_a_member_that_is_not_active_is_ineligible(event: str) -> None:
    cluster = LedCluster([1, 2, 3])
    getattr(cluster, event)(3)

    assert cluster.alter([1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_59_a_member_that_restarted_since_is_ineligible() -> None:
    cluster = LedCluster([1, 2, 3])
    cluster.restart(3, stopped_cleanly=False)
    request = cluster.alter_request([1, 2, 3])
    request.topics[0].partitions[0].new_isr_with_epochs[2].broker_epoch -= 1

    response = cluster.carry_out(cluster.controller.alter_partition(request))

    (answer,) = response.topics[0].partitions
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA


def test_60_a_late_request_of_an_old_partition_epoch_has_no_effect() -> None:
    cluster = LedCluster([1, 2, 3])
    late = cluster.alter_request([1, 2, 3])
    cluster.fence(3)
    cluster.unfence(3)

    response = cluster.carry_out(cluster.controller.alter_partition(late))

    (answer,) = response.topics[0].partitions
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.led() == (1, [1, 2])


def test_61_a_reassignment_completes_when_all_new_replicas_are_in_sync() -> None:
    cluster = LedCluster([1, 2, 3], brokers=6)
    assert cluster.reassign([4, 5, 6]) == ErrorCode.NONE
    partition = cluster.partition()
    assert partition.replicas == (4, 5, 6, 1, 2, 3)
    assert (partition.adding_replicas, partition.removing_replicas) == ((4, 5, 6), (1, 2, 3))
    assert partition.leader_epoch == 0

    assert cluster.alter([1, 2, 3, 4, 5]).error_code == ErrorCode.NONE
    assert cluster.partition().is_reassigning
    answer = cluster.alter([1, 2, 3, 4, 5, 6])

    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    partition = cluster.partition()
    assert (partition.replicas, partition.isr) == ((4, 5, 6), (4, 5, 6))
    assert (partition.leader, partition.leader_epoch) == (4, 1)
    assert not partition.is_reassigning
    assert len(partition.directories) == 3


def test_61_a_leader_that_stays_gets_a_new_epoch_when_replicas_go() -> None:
    cluster = LedCluster([1, 2, 3], brokers=4)
    cluster.reassign([1, 2, 4])

    answer = cluster.alter([1, 2, 3, 4])

    assert (answer.error_code, answer.leader_id) == (ErrorCode.NONE, 1)
    assert answer.leader_epoch == 1
    assert cluster.partition().replicas == (1, 2, 4)


def test_61_another_order_of_the_replicas_completes_at_once() -> None:
    cluster = LedCluster([1, 2, 3])

    assert cluster.reassign([3, 2, 1]) == ErrorCode.NONE

    assert cluster.partition().replicas == (3, 2, 1)
    assert not cluster.partition().is_reassigning
    assert cluster.partition().leader_epoch == 0


def test_61_a_smaller_replica_set_waits_until_all_of_it_is_in_sync() -> None:
    cluster = LedCluster([1, 2, 3])
    cluster.alter([1, 2])

    cluster.reassign([2, 3])
    assert cluster.partition().is_reassigning
    assert cluster.alter([1, 2, 3]).error_code == ErrorCode.NEW_LEADER_ELECTED

    assert (cluster.partition().replicas, cluster.led()) == ((2, 3), (2, [2, 3]))


@pytest.mark.parametrize("allowed", [False, True])
def test_62_going_back_with_only_new_replicas_in_sync_needs_an_unclean_election(
    allowed: bool,
) -> None:
    cluster = LedCluster(
        [1], brokers=3, configs={"unclean.leader.election.enable": str(allowed).lower()}
    )
    cluster.reassign([2, 3])
    cluster.alter([1, 2])
    cluster.fence(1)
    assert cluster.led() == (2, [2])

    code = cluster.reassign(None)

    if not allowed:
        assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert cluster.partition().is_reassigning
        return
    assert code == ErrorCode.NONE
    partition = cluster.partition()
    assert (partition.replicas, partition.isr) == ((1,), (1,))
    assert partition.leader_recovery_state == LeaderRecoveryState.RECOVERING


def test_62_cancelling_brings_the_old_replicas_back() -> None:
    cluster = LedCluster([1, 2, 3], brokers=6)
    assert cluster.reassign(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    cluster.reassign([4, 5, 6])
    cluster.alter([1, 2, 3, 4])

    assert cluster.reassign(None) == ErrorCode.NONE

    partition = cluster.partition()
    assert (partition.replicas, partition.isr) == ((1, 2, 3), (1, 2, 3))
    assert (partition.leader, partition.leader_epoch) == (1, 1)
    assert not partition.is_reassigning


def test_63_a_new_reassignment_replaces_the_one_that_runs() -> None:
    cluster = LedCluster([1, 2, 3], brokers=6)
    cluster.reassign([1, 2, 4])

    assert cluster.reassign([1, 5, 6]) == ErrorCode.NONE

    partition = cluster.partition()
    assert partition.replicas == (1, 5, 6, 2, 3, 4)
    assert (partition.adding_replicas, partition.removing_replicas) == ((5, 6), (2, 3, 4))


def test_63_a_new_one_back_to_where_it_began_ends_the_one_that_runs() -> None:
    cluster = LedCluster([1, 2, 3], brokers=4)
    cluster.reassign([1, 2, 4])

    assert cluster.reassign([1, 2, 3]) == ErrorCode.NONE

    assert cluster.partition().replicas == (1, 2, 3)
    assert not cluster.partition().is_reassigning
