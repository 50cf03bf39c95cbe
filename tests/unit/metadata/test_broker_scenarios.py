"""Brokers and the controller, by the numbers of the fact sheet's scenarios (42-55, 64, 66, 69).

Told on one controller that commits at once. Time and offsets are the test's.
"""

from dataclasses import dataclass, field

import pytest

from ledgerstone.metadata.features import SUPPORTED_FEATURES
from ledgerstone.metadata.image import (
    EVERY_BROKER,
    NO_LEADER,
    MetadataImage,
    PartitionImage,
    ResourceType,
)
from ledgerstone.metadata.replay import apply
from ledgerstone.metadata.snapshot import snapshot_records
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from ledgerstone.protocol.messages.create_topics import CreateTopicsRequest
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ledgerstone.protocol.messages.metadata_records import (
    BeginTransactionRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ledgerstone.protocol.messages.update_features import (
    UpdateFeaturesFeatureUpdate,
    UpdateFeaturesRequest,
)
from tests.unit.metadata.cluster import Cluster, a_topic

SESSION_MS = 9_000
ELR = "eligible.leader.replicas.version"


@dataclass(slots=True)
class _Node:
    """One broker process: registers, sends heartbeats, and says how far its metadata is."""

    cluster: Cluster
    broker_id: int
    life: int = 1  # Counts its processes.
    epoch: int = -1
    applied: int = -1
    previous_epoch: int = -1
    answers: list[BrokerHeartbeatResponse] = field(default_factory=list)

    def registration(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id="cluster",
            incarnation_id=bytes([self.broker_id, self.life] * 8),
            listeners=[BrokerRegistrationListener("PLAINTEXT", f"host-{self.broker_id}", 9092, 0)],
            features=[
                BrokerRegistrationFeature(name, first, last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[bytes([self.broker_id] * 16)],
            previous_broker_epoch=self.previous_epoch,
        )

    def register(self) -> int:
        response = self.cluster.ask(self.registration())
        if not response.error_code:
            self.epoch = response.broker_epoch
        code: int = response.error_code
        return code

    def beat(self, *, want_fence: bool = False, want_shut_down: bool = False) -> int:
        request = BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.applied,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
        )
        self.answers.append(self.cluster.ask(request))
        return self.answers[-1].error_code

    def catch_up(self) -> None:
        self.applied = len(self.cluster.log) - 1

    def start(self) -> None:
        assert self.register() == 0
        self.catch_up()
        assert self.beat() == 0
        assert not self.answers[-1].is_fenced

    def restart(self, *, cleanly: bool = True) -> None:
        self.previous_epoch = self.epoch if cleanly else -1
        self.life += 1


def _cluster(brokers: int, *overrides: str) -> tuple[Cluster, list[_Node]]:
    # The controller is on a node of its own.
    cluster = Cluster("node.id=100", *overrides, brokers=0)
    cluster.lead()
    nodes = [_Node(cluster, broker_id) for broker_id in range(1, brokers + 1)]
    for node in nodes:
        node.start()
    return cluster, nodes


def _partition(cluster: Cluster, topic: str = "t", number: int = 0) -> PartitionImage:
    return cluster.image.topics[topic].partitions[number]


def _with_elr(cluster: Cluster) -> None:
    update = UpdateFeaturesFeatureUpdate(feature=ELR, max_version_level=1)
    assert cluster.ask(UpdateFeaturesRequest(feature_updates=[update])).error_code == 0


def _set_min_isr(cluster: Cluster, topic: str, value: str) -> None:
    change = IncrementalAlterConfigsConfig("min.insync.replicas", 0, value)
    resource = IncrementalAlterConfigsResource(ResourceType.TOPIC, topic, [change])
    (result,) = cluster.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert result.error_code == 0, result.error_message


def test_42_another_incarnation_waits_for_the_session_of_the_first() -> None:
    cluster, (first,) = _cluster(1)
    second = _Node(cluster, 1, life=2)

    cluster.now_ms = SESSION_MS
    assert second.register() == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms = SESSION_MS + 1
    assert second.register() == 0

    assert second.epoch > first.epoch
    assert cluster.image.brokers[1].fenced
    assert first.beat() == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("leads", [True, False])
def test_42_who_was_let_go_is_not_waited_for(leads: bool) -> None:
    cluster, (first,) = _cluster(1)
    if leads:
        cluster.create(a_topic())
        first.beat(want_shut_down=True)
        assert _Node(cluster, 1, life=2).register() == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    first.beat(want_shut_down=True)
    assert first.answers[-1].should_shut_down

    assert _Node(cluster, 1, life=2).register() == 0


def test_43_the_same_incarnation_twice_keeps_epoch_and_fencing() -> None:
    cluster, (node,) = _cluster(1)
    before = cluster.image.brokers[1]
    epoch = node.epoch

    assert node.register() == 0

    assert node.epoch == epoch
    assert cluster.image.brokers[1] == before
    assert not before.fenced


def test_44_a_heartbeat_of_an_old_epoch_is_no_contact() -> None:
    cluster, (node,) = _cluster(1)
    stale = _Node(cluster, 1, epoch=node.epoch - 1)

    cluster.now_ms = SESSION_MS
    assert stale.beat() == ErrorCode.STALE_BROKER_EPOCH
    assert _Node(cluster, 9, epoch=1).beat() == ErrorCode.STALE_BROKER_EPOCH
    cluster.now_ms = SESSION_MS + 1

    assert cluster.act_on_time() == 1
    assert cluster.image.brokers[1].fenced


def test_45_a_broker_is_not_unfenced_before_it_knows_its_own_registration() -> None:
    cluster, (node, other) = _cluster(2)
    cluster.create(a_topic(assignments={0: [1, 2], 1: [2, 1], 2: [1, 2]}))
    cluster.now_ms = SESSION_MS + 1
    other.beat()
    node.restart()
    end = len(cluster.log)
    assert node.register() == 0
    # Records that clean up come first: the registration is not where the epoch says.
    offset = len(cluster.log) - 1
    assert node.epoch == end < offset

    node.applied = offset - 1
    node.beat()
    assert (node.answers[-1].is_fenced, node.answers[-1].is_caught_up) == (True, False)
    node.applied = offset
    node.beat()

    assert (node.answers[-1].is_fenced, node.answers[-1].is_caught_up) == (False, True)
    assert not cluster.image.brokers[1].fenced


def test_46_a_busy_controller_fences_no_broker_it_has_heard_from() -> None:
    cluster, nodes = _cluster(3)

    cluster.now_ms = SESSION_MS
    for node in nodes:
        # Noted when it comes in; the answer is decided much later.
        cluster.controller.sessions.contact(node.broker_id, node.epoch, cluster.now_ms)
    cluster.now_ms += 5_000

    assert cluster.act_on_time() == 0
    assert all(node.beat() == 0 for node in nodes)
    assert all(broker.is_active for broker in cluster.image.brokers.values())


def test_47_stale_brokers_are_fenced_one_by_one() -> None:
    cluster, nodes = _cluster(4)
    cluster.create(a_topic(assignments={0: [1, 2, 3, 4], 1: [2, 1, 3, 4]}))
    cluster.now_ms = SESSION_MS + 1
    nodes[3].beat()

    seen = []
    while (decision := cluster.controller.due(cluster.now_ms)) is not None:
        cluster.carry_out(decision)
        partition = _partition(cluster)
        fenced = {each for each, broker in cluster.image.brokers.items() if broker.fenced}
        assert fenced.isdisjoint(partition.isr)
        assert partition.leader not in fenced
        seen.append(partition.leader)

    assert seen == [2, 3, 4]
    assert _partition(cluster).isr == _partition(cluster, number=1).isr == (4,)


def test_48_a_new_controller_gives_everybody_a_new_session() -> None:
    cluster, (dead, alive) = _cluster(2)
    cluster.create(a_topic(assignments={0: [1, 2]}))
    cluster.now_ms = 20_000
    cluster.fail_over()

    cluster.now_ms = 20_000 + SESSION_MS
    alive.beat()
    assert cluster.act_on_time() == 0
    assert cluster.controller.next_deadline_ms == 20_000 + SESSION_MS + 1
    cluster.now_ms += 1

    assert cluster.act_on_time() == 1
    assert cluster.image.brokers[dead.broker_id].fenced
    assert _partition(cluster).leader == 2


def test_49_a_controlled_shutdown_is_granted_once_the_others_have_applied_it() -> None:
    cluster, (leaving, second, third) = _cluster(3)
    cluster.create(a_topic(assignments={0: [1, 2, 3], 1: [2, 3, 1]}))
    epochs = {number: _partition(cluster, number=number).leader_epoch for number in (0, 1)}

    leaving.beat(want_shut_down=True)
    assert (leaving.answers[-1].is_fenced, leaving.answers[-1].should_shut_down) == (False, False)
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert (_partition(cluster).leader, _partition(cluster).isr) == (2, (2, 3))
    # Only where it led is there a new epoch.
    assert _partition(cluster).leader_epoch == epochs[0] + 1
    assert _partition(cluster, number=1).leader_epoch == epochs[1]
    end = len(cluster.log) - 1

    for second.applied, third.applied, granted in [(end, 0, False), (end, end, True)]:
        second.beat()
        third.beat()
        leaving.beat(want_shut_down=True)
        assert leaving.answers[-1].should_shut_down is granted
    assert leaving.answers[-1].is_fenced
    assert cluster.image.brokers[1].fenced


def test_49_a_failover_does_not_forget_whose_metadata_to_wait_for() -> None:
    cluster, (leaving, other) = _cluster(2)
    cluster.create(a_topic(assignments={0: [1, 2]}))
    leaving.beat(want_shut_down=True)
    cluster.fail_over()

    leaving.beat(want_shut_down=True)
    assert not leaving.answers[-1].should_shut_down
    other.catch_up()
    other.beat()
    leaving.beat(want_shut_down=True)

    assert leaving.answers[-1].should_shut_down


def test_49_a_broker_that_was_let_go_leads_nothing_until_it_registers_again() -> None:
    cluster, (node,) = _cluster(1)
    cluster.create(a_topic(assignments={0: [1]}))
    node.beat(want_shut_down=True)
    node.beat(want_shut_down=True)
    assert node.answers[-1].should_shut_down

    node.catch_up()
    node.beat()

    assert node.answers[-1].is_fenced
    assert _partition(cluster).leader == NO_LEADER


def test_50_the_only_replica_leaves_the_partition_without_a_leader_until_it_is_back() -> None:
    cluster, (node, _) = _cluster(2)
    cluster.create(a_topic(assignments={0: [1]}))

    node.beat(want_shut_down=True)
    gone = _partition(cluster)
    # Fenced at last: it leads nothing, and the other broker has nothing to learn of it.
    cluster.controller.sessions.applied(2, len(cluster.log))
    node.beat(want_shut_down=True)
    assert node.answers[-1].should_shut_down
    node.restart()
    cluster.now_ms = SESSION_MS + 1
    node.start()

    back = _partition(cluster)
    assert (gone.leader, gone.isr, gone.leader_epoch) == (NO_LEADER, (1,), 1)
    assert (back.leader, back.isr, back.leader_epoch) == (1, (1,), 2)


def test_51_a_process_that_was_killed_and_is_back_leaves_the_isr_first() -> None:
    cluster, (killed, other) = _cluster(2)
    cluster.create(a_topic(assignments={0: [1, 2]}))
    cluster.now_ms = 1_000
    killed.restart(cleanly=False)
    assert killed.register() == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms = SESSION_MS + 1
    other.beat()

    assert killed.register() == 0
    assert (_partition(cluster).leader, _partition(cluster).isr) == (2, (2,))
    killed.catch_up()
    killed.beat()

    # It comes back by fetching, not by being there.
    assert cluster.image.brokers[1].is_active
    assert (_partition(cluster).leader, _partition(cluster).isr) == (2, (2,))


def test_52_the_last_member_of_an_isr_stays_in_it_and_only_it_can_lead_again() -> None:
    cluster, (first, second) = _cluster(2)
    cluster.create(a_topic(assignments={0: [1, 2]}))
    second.beat(want_fence=True)

    first.beat(want_fence=True)
    assert (_partition(cluster).leader, _partition(cluster).isr) == (NO_LEADER, (1,))
    second.beat()
    assert cluster.image.brokers[2].is_active
    assert _partition(cluster).leader == NO_LEADER
    first.beat()

    assert (_partition(cluster).leader, _partition(cluster).isr) == (1, (1,))


def test_53_below_the_minimum_members_become_eligible_and_are_elected_cleanly() -> None:
    cluster, (first, second, third) = _cluster(3)
    _with_elr(cluster)
    topic = a_topic(assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"})
    cluster.create(topic)

    seen = []
    for node in (first, second, third):
        node.beat(want_fence=True)
        partition = _partition(cluster)
        seen.append((partition.leader, partition.isr, partition.eligible_leader_replicas))
    assert seen == [(2, (2, 3), ()), (3, (3,), (2,)), (NO_LEADER, (), (2, 3))]
    second.beat()

    back = _partition(cluster)
    assert (back.leader, back.isr, back.eligible_leader_replicas) == (2, (2,), (3,))
    assert back.leader_recovery_state == 0


@pytest.mark.parametrize("cleanly", [True, False])
def test_54_an_eligible_replica_that_was_killed_is_none_any_more(cleanly: bool) -> None:
    cluster, (first, second) = _cluster(2)
    _with_elr(cluster)
    cluster.create(a_topic(assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"}))
    first.beat(want_fence=True)
    second.beat(want_fence=True)
    assert _partition(cluster).eligible_leader_replicas == (1, 2)
    cluster.now_ms = SESSION_MS + 1

    first.restart(cleanly=cleanly)
    assert first.register() == 0

    expected = (1, 2) if cleanly else (2,)
    assert _partition(cluster).eligible_leader_replicas == expected
    first.catch_up()
    first.beat()
    assert _partition(cluster).leader == (1 if cleanly else NO_LEADER)


def test_55_another_minimum_clears_who_is_eligible_and_changes_no_other_epoch() -> None:
    cluster, (first, _) = _cluster(2)
    _with_elr(cluster)
    cluster.create(a_topic(assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"}))
    cluster.create(a_topic("u", assignments={0: [1, 2]}))
    first.beat(want_fence=True)
    before, other = _partition(cluster), _partition(cluster, "u")
    assert before.eligible_leader_replicas == (1,)

    _set_min_isr(cluster, "t", "1")
    _set_min_isr(cluster, "u", "1")

    assert _partition(cluster).eligible_leader_replicas == ()
    assert _partition(cluster).leader_epoch == before.leader_epoch
    assert _partition(cluster, "u") == other


def test_64_a_name_deleted_and_made_again_in_one_batch_is_another_topic() -> None:
    cluster, _ = _cluster(1)
    cluster.create(a_topic())
    old = cluster.image.topics["t"]
    delete = cluster.controller.delete_topics(DeleteTopicsRequest(topic_names=["t"]))
    probe = Cluster("node.id=100", brokers=0, seed=9)
    probe.controller.replay(cluster.log)
    probe.controller.replay(delete.records)
    create = probe.controller.create_topics(CreateTopicsRequest(topics=[a_topic()]))

    delta = cluster.commit([*delete.records, *create.records])

    new = cluster.image.topics["t"]
    assert old.topic_id != new.topic_id
    assert [each.topic_id for each in delta.topics_deleted] == [old.topic_id]
    assert [each.topic_id for each in delta.topics_created] == [new.topic_id]
    assert (new.partitions[0].leader_epoch, new.partitions[0].partition_epoch) == (0, 0)


def test_66_a_transaction_open_at_a_failover_is_aborted_and_leaves_no_trace() -> None:
    cluster, _ = _cluster(1)
    before = cluster.image
    topic_id = bytes([9] * 16)
    cluster.commit([BeginTransactionRecord("t"), TopicRecord("half", topic_id)])
    cluster.commit([PartitionRecord(0, topic_id, [1], [1], leader=1)])
    assert cluster.image.topics == before.topics

    cluster.fail_over()
    assert cluster.image.open_transaction is not None
    (abort,) = cluster.controller.activation([])
    cluster.commit([abort])

    assert cluster.image == before
    assert cluster.controller.activation([]) == []


def test_66_a_cluster_that_crashed_while_it_was_born_is_born_again() -> None:
    cluster = Cluster("node.id=100", brokers=0)
    controller = cluster.controller
    empty = MetadataImage(cluster_id="cluster")
    bootstrap: list[MetadataRecord] = [
        FeatureLevelRecord("metadata.version", 30),
        FeatureLevelRecord(ELR, 1),
    ]
    controller.decided = controller.committed = empty

    whole = controller.activation(bootstrap)
    half = apply(empty, whole[:3]).image
    controller.decided = controller.committed = half
    again = controller.activation(bootstrap)

    assert half.features == {}
    image = apply(half, again).image
    assert image == apply(empty, whole).image
    assert image.features == {"metadata.version": 30, ELR: 1}
    assert image.config_of(EVERY_BROKER) == {"min.insync.replicas": "1"}


def test_69_a_snapshot_is_the_image_of_the_log() -> None:
    cluster, nodes = _cluster(3)
    _with_elr(cluster)
    cluster.create(a_topic("a", partitions=3, factor=3, configs={"retention.ms": "5"}))
    cluster.create(a_topic("b", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"}))
    nodes[0].beat(want_shut_down=True)
    nodes[1].beat(want_fence=True)

    image = apply(MetadataImage(cluster_id="cluster"), snapshot_records(cluster.image)).image

    assert image == cluster.image
    kinds = [type(each) for each in snapshot_records(image)]
    assert kinds[:6] == [*[FeatureLevelRecord] * 3, *[RegisterBrokerRecord] * 3]
    assert next(snapshot_records(image)) == FeatureLevelRecord("metadata.version", 30)
