"""The quorum in figures, and what `/readyz` says of it."""

from ledgerstone.raft.events import Leadership
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.raft.roles import Unattached
from ledgerstone.server import cluster_view as view
from ledgerstone.server.http.monitor import readiness
from ledgerstone.server.quorum.meter import Latency, QuorumMeter
from ledgerstone.sim.clock import VirtualClock
from tests.kit.cluster_settings import CONTROLLER
from tests.kit.in_process import InProcess
from tests.kit.lone_node import lone_node
from tests.kit.quorum_agents import Net, static_settings
from tests.unit.server.test_monitor import figures

# -- the meter ------------------------------------------------------------------------------------


def test_a_latency_is_that_of_the_latest_events() -> None:
    latency = Latency()
    assert (latency.average_ms, latency.max_ms) == (0, 0)

    for duration_ms in [1_000, *[10] * 64]:
        latency.note(duration_ms)

    assert (latency.average_ms, latency.max_ms) == (10, 10)


def test_an_election_lasts_from_the_loss_of_a_leader_to_the_next() -> None:
    meter = QuorumMeter()
    meter.looked(1, 1, 10, 0)
    meter.looked(1, None, 10, 500)
    meter.looked(2, None, 10, 900)
    meter.looked(2, 3, 10, 2_500)

    assert meter.elections.average_ms == 2_000
    assert meter.leader_changes == 2


def test_a_commit_lasts_until_the_high_watermark_has_passed_it() -> None:
    meter = QuorumMeter()
    meter.looked(1, 1, 10, 0)
    meter.proposed(12, 100)
    meter.proposed(14, 110)
    meter.looked(1, 1, 13, 130)
    assert meter.commits.max_ms == 30

    meter.looked(1, 1, 14, 170)

    assert meter.commits.max_ms == 60


def test_what_a_lost_leader_had_proposed_is_not_waited_for() -> None:
    meter = QuorumMeter()
    meter.proposed(12, 100)
    meter.looked(2, None, 10, 200)
    meter.looked(3, 2, 20, 5_000)

    assert meter.commits.max_ms == 0


# -- three voters ---------------------------------------------------------------------------------


def _elected() -> Net:
    net = Net()
    for node_id in (1, 2, 3):
        net.add(node_id, static_settings(node_id, (1, 2, 3))).start()
    net.run_until(lambda: net.leader is not None)
    return net


def test_every_voter_measures_the_election() -> None:
    net = _elected()
    leader = net.leader
    assert leader is not None
    net.run_until(lambda: all(each.raft.leader_id == leader.id for each in net.nodes.values()))

    for node in net.nodes.values():
        assert node.raft.meter.elections.max_ms >= 1_000
        assert node.raft.meter.leader_changes == 1


def test_a_leader_measures_its_commits() -> None:
    net = _elected()
    leader = net.leader
    assert leader is not None

    end = leader.write("a")
    net.run_until(lambda: leader.raft.high_watermark >= end)

    assert leader.raft.meter.commits.count == 1
    assert leader.raft.meter.last_applied_timestamp_ms > 0


def test_states_have_kafkas_names() -> None:
    net = _elected()
    leader = net.leader
    assert leader is not None
    others = [each for each in net.nodes.values() if each is not leader]
    net.run_until(lambda: all(each.raft.leader_id is not None for each in others))

    assert view.state_of(leader.raft) == "leader"
    assert {view.state_of(each.raft) for each in others} == {"follower"}


# -- /metrics -------------------------------------------------------------------------------------


def test_a_single_node_is_a_quorum_of_its_own(machine: InProcess) -> None:
    found = figures(machine)

    raft = "kafka_server_raft_metrics_"
    assert found[f"{raft}current_leader"] == 1
    assert found[f"{raft}number_of_voters"] == 1
    assert found[f"{raft}number_of_observers"] == 0
    assert found[f"{raft}high_watermark"] == found[f"{raft}log_end_offset"] > 0
    assert found[f'{raft}current_state{{state="leader"}}'] == 1
    controller = "kafka_controller_kafkacontroller_"
    assert found[f"{controller}activecontrollercount"] == 1
    assert found[f"{controller}newactivecontrollerscount"] == 1
    assert found[f"{controller}preferredreplicaimbalancecount"] == 0
    assert found[f"{controller}timedoutbrokerheartbeatcount"] == 0
    assert found[f"{controller}metadataerrorcount"] == 0
    assert found["kafka_server_broker_metadata_metrics_last_applied_record_lag_ms"] == 0
    assert found["kafka_server_kafkaserver_brokerstate"] == 3


# -- /readyz --------------------------------------------------------------------------------------


def test_a_single_node_has_nothing_to_complain_about(machine: InProcess) -> None:
    assert view.complaints(machine.broker) == []
    assert readiness(machine.broker).status == 200


def test_a_quorum_that_has_halted_is_named(machine: InProcess) -> None:
    machine.broker.quorum.halted = "OSError: the disk is gone"

    assert view.complaints(machine.broker) == ["metadata quorum: OSError: the disk is gone"]
    assert readiness(machine.broker).status == 503
    assert figures(machine)["kafka_controller_kafkacontroller_metadataerrorcount"] == 1


def test_a_controller_that_leads_is_ready() -> None:
    broker = lone_node(CONTROLLER)

    assert view.complaints(broker) == []
    assert view.broker_state(broker) in (0, 3)


def test_a_broker_that_has_not_registered_is_not_ready() -> None:
    assert view.complaints(lone_node()) == ["broker: starting"]


def test_no_leader_is_a_reason() -> None:
    broker = lone_node(CONTROLLER)
    broker.quorum.node.quorum.role = Unattached(epoch=7, election_deadline_ms=0)

    assert "metadata quorum: no leader is known in epoch 7" in view.complaints(broker)


def test_metadata_that_is_old_is_a_reason() -> None:
    broker = lone_node(CONTROLLER)
    broker.controller_link.leadership(Leadership(99, 2, is_me=False))
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    clock.advance(ms=20_000)

    assert any("catching up, 20000 ms behind" in line for line in view.complaints(broker))


def test_observers_are_counted_by_their_fetches() -> None:
    net = _elected()
    leader = net.leader
    assert leader is not None
    role = leader.raft.node.role
    assert isinstance(role, Leader)
    role.record_fetch(ReplicaKey(9, b"x" * 16), 0, own_end=0, now_ms=0, wall_ms=0)

    found = {each.name: each.value for each in view.raft_samples(leader.raft)}

    assert found["kafka_server_raft_metrics_number_of_observers"] == 1


# -- the page ------------------------------------------------------------------------------------


def test_a_single_node_shows_no_quorum(machine: InProcess) -> None:
    assert view.quorum_summary(machine.broker) is None


def test_the_page_shows_leader_epoch_and_voters() -> None:
    facts = view.quorum_summary(lone_node())

    assert facts is not None
    assert (facts.state, facts.leader_id, facts.epoch) == ("leader", 1, 1)
    assert facts.voters == (view.VoterSummary(1, 0),)
