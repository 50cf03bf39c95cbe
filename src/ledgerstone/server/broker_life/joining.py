"""The parts that make a node a member of a cluster. Grade D.

Every member forwards requests to the active controller. A broker registers and sends heartbeats, a
controller registers as such; a node that is both does both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.listeners import Listener
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
from ledgerstone.server.broker_life.agent import AskController, LifeAgent
from ledgerstone.server.broker_life.controller_registration import ControllerRegistering
from ledgerstone.server.broker_life.machine import BrokerLife, LifeSettings
from ledgerstone.server.calls import Calls
from ledgerstone.server.forwarding import FORWARDING, HEARTBEATS, Forwarding
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.uuid_text import random_uuid

_PLAINTEXT: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMembership:
    """`life` only where there is a broker, `registering` only where there is a controller."""

    forwarding: Forwarding
    calls: tuple[Calls, ...]
    life: LifeAgent | None
    registering: ControllerRegistering | None


def forwarding_for(
    config: BrokerConfig, clock: Clock, leader: Callable[[], Peer | None]
) -> tuple[Forwarding, tuple[Calls, ...]]:
    """And the connections it uses. Heartbeats have their own."""
    heartbeats, others = (
        Calls(purpose, clock, client_id=f"broker-{config.node_id}-{purpose}")
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
    leader: Callable[[], Peer | None],
    ask: AskController,
    image: Callable[[], MetadataImage],
    applied_offset: Callable[[], int],
) -> ClusterMembership:
    """`advertised` has all listeners of the node, with their real ports."""
    cluster, life, registering = config.cluster, None, None
    names = cluster.controller_listener_names
    forwarding, calls = forwarding_for(config, clock, leader)
    if cluster.is_broker:
        own = [each for each in advertised if each.name not in names]
        registration = _broker_registration(config, dice, log_dirs, own)
        machine = BrokerLife(registration, _life_settings(config), clock.monotonic_ms())
        life = LifeAgent(machine, clock=clock, ask=ask, applied_offset=applied_offset)
    if cluster.is_controller:
        own = [each for each in advertised if each.name in names]
        controller = _controller_registration(config, dice, own)
        registering = ControllerRegistering(controller, clock=clock, ask=ask, image=image)
    return ClusterMembership(forwarding=forwarding, calls=calls, life=life, registering=registering)


def _broker_registration(
    config: BrokerConfig, dice: Dice, log_dirs: LogDirs, advertised: Sequence[Listener]
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=log_dirs.metadata.meta.cluster_id or "",
        incarnation_id=random_uuid(dice),
        listeners=[
            BrokerRegistrationListener(each.name, each.host, each.port, _PLAINTEXT)
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
            ControllerRegistrationListener(each.name, each.host, each.port, _PLAINTEXT)
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
