"""The quorum and the controller as operators see them: metrics, and what is not in order. Grade D.

Names are those of Kafka's beans `raft-metrics`, `broker-metadata-metrics` and `KafkaController`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ledgerstone.metadata.image import MetadataImage, PartitionImage
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.raft.roles import Candidate, Follower, Prospective, Resigned, Role, Unattached
from ledgerstone.server.broker import Broker
from ledgerstone.server.broker_life.machine import BrokerState
from ledgerstone.server.follower_lags import follower_lags, lag_by_node
from ledgerstone.server.metrics import MetricSample
from ledgerstone.server.quorum.agent import QuorumAgent

_RAFT: Final = "kafka_server_raft_metrics_"
_BROKER: Final = "kafka_server_broker_metadata_metrics_"
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_NOBODY: Final = -1
# A replica this far behind the leader's end has not caught up. NoOps make some records a second.
_FAR_BEHIND_MS: Final = 10_000

_STATES: Final[dict[type, str]] = {
    Leader: "leader",
    Follower: "follower",
    Candidate: "candidate",
    Prospective: "prospective",
    Unattached: "unattached",
    Resigned: "resigned",
}


def state_of(quorum: QuorumAgent) -> str:
    """As Kafka names it."""
    role: Role = quorum.node.role
    is_voter = quorum.node.quorum.is_voter
    name = _STATES[type(role)]
    return "observer" if not is_voter and name in ("follower", "unattached") else name


def lag_ms(broker: Broker) -> int:
    """How old the newest record is that this node has applied. The active controller has all."""
    if broker.controller_link.is_active:
        return 0
    timestamp_ms = broker.quorum.meter.last_applied_timestamp_ms
    return 0 if timestamp_ms < 0 else max(broker.clock.now_ms() - timestamp_ms, 0)


def broker_state(broker: Broker) -> int:
    """Kafka's number. A node that only controls has none: 0."""
    membership = broker.membership
    if membership is None:
        return BrokerState.RUNNING
    return 0 if membership.life is None else membership.life.life.state


def samples(broker: Broker) -> Iterator[MetricSample]:
    yield from raft_samples(broker.quorum)
    for name, value, text in (
        ("last_applied_record_offset", broker.quorum.committed_offset, "Of the metadata log."),
        (
            "last_applied_record_timestamp",
            broker.quorum.meter.last_applied_timestamp_ms,
            "Of the newest metadata record applied here.",
        ),
        ("last_applied_record_lag_ms", lag_ms(broker), "Age of that record."),
        (
            "metadata_apply_error_count",
            broker.following.faults.count,
            "Times that a part of this node failed over committed metadata.",
        ),
    ):
        yield MetricSample(_BROKER + name, "gauge", text, value)
    if broker.config.cluster.is_controller:
        yield from _controller_samples(broker)
    for node, lag in sorted(lag_by_node(follower_lags(broker.partitions)).items()):
        yield MetricSample(
            "ledgerstone_follower_lag_records",
            "gauge",
            "Records of partitions led here that a follower has not fetched.",
            lag,
            (("follower", str(node)),),
        )


def raft_samples(quorum: QuorumAgent) -> Iterator[MetricSample]:
    node, meter = quorum.node, quorum.meter
    voted = node.role.voted
    for name, value, text in (
        ("current_leader", _or_nobody(quorum.leader_id), "Node id; -1: none is known."),
        ("current_epoch", quorum.epoch, "Epoch of the quorum."),
        ("current_vote", _or_nobody(None if voted is None else voted.id), "-1: no vote."),
        ("high_watermark", quorum.high_watermark, "End of the committed metadata; -1: unknown."),
        ("log_end_offset", quorum.end_offset, "End of the metadata log here."),
        ("number_of_voters", len(node.voters), "Voters of the quorum."),
        ("number_of_observers", _observers(quorum), "Others that fetch from this leader."),
        ("election_latency_avg", meter.elections.average_ms, "Time without a leader, in ms."),
        ("election_latency_max", meter.elections.max_ms, "Time without a leader, in ms."),
        ("commit_latency_avg", meter.commits.average_ms, "From append to commit, in ms."),
        ("commit_latency_max", meter.commits.max_ms, "From append to commit, in ms."),
    ):
        yield MetricSample(_RAFT + name, "gauge", text, value)
    labels = (("state", state_of(quorum)),)
    yield MetricSample(_RAFT + "current_state", "gauge", "1, with the state as label.", 1, labels)


def _or_nobody(node_id: int | None) -> int:
    return _NOBODY if node_id is None else node_id


def _observers(quorum: QuorumAgent) -> int:
    role = quorum.node.role
    if not isinstance(role, Leader):
        return 0
    return sum(quorum.node.voters.match(key) is None for key in role.progress)


def _controller_samples(broker: Broker) -> Iterator[MetricSample]:
    image, quorum, is_active = broker.image, broker.quorum, broker.controller_link.is_active
    states = [state for topic in image.topics.values() for state in topic.partitions.values()]
    fenced = sum(each.fenced for each in image.brokers.values())
    for name, value, text in (
        ("activecontrollercount", int(is_active), "1 on the active controller."),
        ("activebrokercount", len(image.brokers) - fenced, "Brokers that serve."),
        ("fencedbrokercount", fenced, "Brokers that do not."),
        ("globaltopiccount", len(image.topics), "Topics of the cluster."),
        ("globalpartitioncount", len(states), "Partitions of the cluster."),
        ("offlinepartitionscount", _offline(states), "Without a leader."),
        (
            "preferredreplicaimbalancecount",
            _imbalanced(states),
            "Partitions that another than their preferred replica leads.",
        ),
        ("metadataerrorcount", int(quorum.halted is not None), "Failures of the metadata log."),
        ("lastappliedrecordoffset", quorum.committed_offset, "Of the metadata log."),
        ("lastcommittedrecordoffset", quorum.committed_offset, "Of the metadata log."),
        (
            "lastappliedrecordtimestamp",
            quorum.meter.last_applied_timestamp_ms,
            "Of the newest metadata record applied here.",
        ),
        ("lastappliedrecordlagms", lag_ms(broker), "Age of that record."),
    ):
        yield MetricSample(_CONTROLLER + name, "gauge", text, value)
    for name, value, text in (
        (
            "newactivecontrollerscount",
            quorum.meter.leader_changes,
            "Changes of the active controller that this node has seen.",
        ),
        (
            "timedoutbrokerheartbeatcount",
            broker.controller_link.expired_sessions,
            "Brokers fenced by this controller because they were silent.",
        ),
    ):
        yield MetricSample(_CONTROLLER + name, "counter", text, value)


def _offline(states: list[PartitionImage]) -> int:
    return sum(each.leader < 0 for each in states)


def _imbalanced(states: list[PartitionImage]) -> int:
    return sum(each.leader != each.replicas[0] for each in states if each.replicas)


# -- the page ------------------------------------------------------------------------------------


class VoterSummary(NamedTuple):
    id: int
    # Records it has not fetched; None where only the leader would know.
    lag: int | None


class QuorumSummary(NamedTuple):
    state: str
    leader_id: int | None
    epoch: int
    voters: tuple[VoterSummary, ...]
    observers: int


def quorum_summary(broker: Broker) -> QuorumSummary | None:
    """None of a single node: it is all there is."""
    if not broker.config.cluster.is_configured:
        return None
    quorum = broker.quorum
    return QuorumSummary(
        state=state_of(quorum),
        leader_id=quorum.leader_id,
        epoch=quorum.epoch,
        voters=tuple(VoterSummary(key.id, _lag(quorum, key)) for key in quorum.node.voters.keys),
        observers=_observers(quorum),
    )


def _lag(quorum: QuorumAgent, key: ReplicaKey) -> int | None:
    role = quorum.node.role
    if not isinstance(role, Leader):
        return None
    if key.covers(role.own):
        return 0
    progress = role.progress_of(key)
    if progress is None or progress.end_offset is None:
        return None
    return max(quorum.end_offset - progress.end_offset, 0)


# -- /readyz ---------------------------------------------------------------------------------------


def complaints(broker: Broker) -> list[str]:
    """Why this node does not serve, or serves from what it knew before."""
    quorum = broker.quorum
    if quorum.halted is not None:
        return [f"metadata quorum: {quorum.halted}"]
    found = broker.following.faults.complaints()
    if not broker.config.cluster.is_configured:
        return found
    if quorum.leader_id is None:
        found.append(f"metadata quorum: no leader is known in epoch {quorum.epoch}")
    elif (behind_ms := lag_ms(broker)) > _FAR_BEHIND_MS and _writes_noops(broker):
        found.append(f"metadata: catching up, {behind_ms} ms behind controller {quorum.leader_id}")
    return found + _broker_complaints(broker, broker.image)


def _writes_noops(broker: Broker) -> bool:
    """Without them, old metadata may well be all there is."""
    return broker.config.cluster.metadata_max_idle_interval_ms > 0


def _broker_complaints(broker: Broker, image: MetadataImage) -> list[str]:
    membership = broker.membership
    if membership is None or membership.life is None:
        return []
    state = membership.life.life.state
    if state is not BrokerState.RUNNING:
        return [f"broker: {state.name.lower().replace('_', ' ')}"]
    own = image.brokers.get(broker.config.node_id)
    if own is None:
        return ["broker: not registered"]
    if own.fenced:
        return ["broker: fenced by the controller; no heartbeat has arrived in time"]
    return []
