"""The parts that make a node a member of a cluster. Grade D.

Every member forwards requests to the active controller. A broker registers and sends heartbeats, a
controller registers as such; a node that is both does both.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.listeners import Listener
from ledgerstone.dataclasses import dataclass
from ledgerstone.metadata.features import SUPPORTED_FEATURES
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from ledgerstone.protocol.messages.controller_registration import (
    ControllerRegistrationFeature,
    ControllerRegistrationListener,
    ControllerRegistrationRequest,
)
from ledgerstone.raft.replica import Peer
from ledgerstone.replication.fetching.wire import FetchSettings
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.throttle import ReplicationThrottle
from ledgerstone.server.broker_life.agent import AskController, LifeAgent
from ledgerstone.server.broker_life.controller_registration import ControllerRegistering
from ledgerstone.server.broker_life.machine import BrokerLife, LifeSettings
from ledgerstone.server.calls import Calls
from ledgerstone.server.erasing.others import Links
from ledgerstone.server.forwarding import FORWARDING, HEARTBEATS, Forwarding
from ledgerstone.server.replicating.agent import EXPRESS_PURPOSE, PURPOSE, Replicating
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.uuid_text import random_uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMembership:
    """`life` and `replicating` only where there is a broker, `registering` only where there is a
    controller."""

    forwarding: Forwarding
    calls: tuple[Calls, ...]
    life: LifeAgent | None
    registering: ControllerRegistering | None
    replicating: Replicating | None = None
    # Of the coordinators of a broker, also in `calls`.
    coordinators: "CoordinatorCalls | None" = None
    erasures: Links | None = None
    audit: Links | None = None  # where lines of the audit log go to a topic


class CoordinatorCalls(NamedTuple):
    """Connections of their own: a leader answers markers once they are replicated, and a question
    about a transaction must not wait behind them."""

    markers: Calls
    verification: Calls
    offsets: Calls  # of groups that others coordinate


def forwarding_for(
    config: BrokerConfig, clock: Clock, leader: Callable[[], Peer | None]
) -> tuple[Forwarding, tuple[Calls, ...]]:
    """And the connections it uses. Heartbeats have their own."""
    heartbeats, others = (
        Calls(
            purpose,
            clock,
            client_id=f"broker-{config.node_id}-{purpose}",
            listener=config.cluster.controller_listener_names[0],
        )
        for purpose in (HEARTBEATS, FORWARDING)
    )
    forwarding = Forwarding(
        clock=clock,
        leader=leader,
        heartbeats=heartbeats,
        others=others,
        heartbeat_interval_ms=config.cluster.broker_heartbeat_interval_ms,
    )
    return forwarding, (heartbeats, others)


def membership_of(
    config: BrokerConfig,
    *,
    clock: Clock,
    dice: Dice,
    log_dirs: LogDirs,
    advertised: Sequence[Listener],
    partitions: HostedPartitions,
    leader: Callable[[], Peer | None],
    ask: AskController,
    image: Callable[[], MetadataImage],
    applied_offset: Callable[[], int],
) -> ClusterMembership:
    """`advertised` has all listeners of the node, with their real ports."""
    cluster, life, registering, replicating = config.cluster, None, None, None
    names = cluster.controller_listener_names
    forwarding, calls = forwarding_for(config, clock, leader)
    coordinators, erasures, audit = None, None, None
    if cluster.is_broker:
        coordinators = _coordinator_calls(config, clock)
        calls += coordinators
        erasure_calls = _erasure_calls(config, clock)
        calls += erasure_calls
        own = [each for each in advertised if each.name not in names]
        registration = _broker_registration(config, dice, log_dirs, own)
        machine = BrokerLife(registration, _life_settings(config), clock.monotonic_ms())
        life = LifeAgent(machine, clock=clock, ask=ask, applied_offset=applied_offset)
        erasures = Links(
            *erasure_calls,
            listener=cluster.inter_broker_listener_name,
            incarnation_id=registration.incarnation_id,
            broker_epoch=lambda: machine.broker_epoch,
        )
        if config.ledgerstone_audit_topic_enable:
            audit_calls = _named_calls(config, clock, "audit")
            calls = (*calls, audit_calls)
            audit = erasures._replace(calls=audit_calls, api_calls=audit_calls)
        fetching = _replication_calls(config, clock, PURPOSE)
        express = _replication_calls(config, clock, EXPRESS_PURPOSE)
        calls = (*calls, *fetching, *express)
        replicating = _replicating(
            config,
            clock=clock,
            partitions=partitions,
            image=image,
            broker_epoch=lambda: machine.broker_epoch,
            calls=fetching,
            express_calls=express,
        )
    if cluster.is_controller:
        own = [each for each in advertised if each.name in names]
        controller = _controller_registration(config, dice, own)
        registering = ControllerRegistering(controller, clock=clock, ask=ask, image=image)
    return ClusterMembership(
        forwarding=forwarding,
        calls=calls,
        life=life,
        registering=registering,
        replicating=replicating,
        coordinators=coordinators,
        erasures=erasures,
        audit=audit,
    )


def _replication_calls(config: BrokerConfig, clock: Clock, purpose: str) -> tuple[Calls, ...]:
    """One connection to each leader for each fetcher."""
    return tuple(
        Calls(
            f"{purpose}-{number}",
            clock,
            client_id=f"broker-{config.node_id}-fetcher-{number}",
            listener=config.cluster.inter_broker_listener_name or "",
            max_answer_bytes=config.socket_request_max_bytes,
        )
        for number in range(config.cluster.num_replica_fetchers)
    )


def _replicating(
    config: BrokerConfig,
    *,
    clock: Clock,
    partitions: HostedPartitions,
    image: Callable[[], MetadataImage],
    broker_epoch: Callable[[], int],
    calls: Sequence[Calls],
    express_calls: Sequence[Calls],
) -> Replicating:
    cluster = config.cluster
    assert cluster.inter_broker_listener_name is not None
    return Replicating(
        clock=clock,
        partitions=partitions,
        image=image,
        listener_name=cluster.inter_broker_listener_name,
        broker_epoch=broker_epoch,
        calls=calls,
        express_calls=express_calls,
        settings=FetchSettings(
            replica_id=config.node_id,
            max_wait_ms=cluster.replica_fetch_wait_max_ms,
            min_bytes=cluster.replica_fetch_min_bytes,
            partition_max_bytes=cluster.replica_fetch_max_bytes,
            response_max_bytes=cluster.replica_fetch_response_max_bytes,
            backoff_ms=cluster.replica_fetch_backoff_ms,
        ),
        timeout_ms=cluster.replica_socket_timeout_ms,
        throttle=ReplicationThrottle(
            config.node_id,
            windows=cluster.replication_quota_window_num,
            window_ms=cluster.replication_quota_window_size_seconds * 1000,
        ),
        static_values=config.raw,
    )


def _coordinator_calls(config: BrokerConfig, clock: Clock) -> CoordinatorCalls:
    """With the client ids of Kafka's brokers."""
    node_id, listener = config.node_id, config.cluster.inter_broker_listener_name or ""
    marker_sender = f"broker-{node_id}-txn-marker-sender"
    return CoordinatorCalls(
        Calls("coordinator", clock, client_id=marker_sender, listener=listener),
        Calls("verification", clock, client_id="AddPartitionsManager", listener=listener),
        Calls("offsets", clock, client_id=f"broker-{node_id}-group-offsets", listener=listener),
    )


def _erasure_calls(config: BrokerConfig, clock: Clock) -> tuple[Calls, Calls]:
    """Calls of the JSON API wait for the journal, and have a connection of their own."""
    return _named_calls(config, clock, "erasures"), _named_calls(config, clock, "erasures-api")


def _named_calls(config: BrokerConfig, clock: Clock, purpose: str) -> Calls:
    listener = config.cluster.inter_broker_listener_name or ""
    client_id = f"broker-{config.node_id}-{purpose}"
    return Calls(purpose, clock, client_id=client_id, listener=listener)


def _broker_registration(
    config: BrokerConfig, dice: Dice, log_dirs: LogDirs, advertised: Sequence[Listener]
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=log_dirs.metadata.meta.cluster_id or "",
        incarnation_id=random_uuid(dice),
        listeners=[
            BrokerRegistrationListener(
                each.name, each.host, each.port, config.listener_protocols[each.name]
            )
            for each in advertised
        ],
        features=[
            BrokerRegistrationFeature(name, first, last)
            for name, (first, last) in SUPPORTED_FEATURES.items()
        ],
        rack=config.broker_rack,
        log_dirs=log_dirs.online_ids,
        previous_broker_epoch=log_dirs.previous_broker_epoch,
    )


def _controller_registration(
    config: BrokerConfig, dice: Dice, advertised: Sequence[Listener]
) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=config.node_id,
        incarnation_id=random_uuid(dice),
        listeners=[
            ControllerRegistrationListener(
                each.name, each.host, each.port, config.listener_protocols[each.name]
            )
            for each in advertised
        ],
        features=[
            ControllerRegistrationFeature(name, first, last)
            for name, (first, last) in SUPPORTED_FEATURES.items()
        ],
    )


def _life_settings(config: BrokerConfig) -> LifeSettings:
    cluster = config.cluster
    return LifeSettings(
        heartbeat_interval_ms=cluster.broker_heartbeat_interval_ms,
        session_timeout_ms=cluster.broker_session_timeout_ms,
        registration_timeout_ms=cluster.initial_broker_registration_timeout_ms,
        directory_failure_ms=config.log_dir_failure_timeout_ms,
    )
