"""From a configuration and a disk to a broker that could serve: everything but sockets. Grade D.

Take the log directory, replay the metadata, open the logs. A single node also registers and
unfences itself, and loads its groups; a node of a cluster waits for others first (`cluster_start`).
What a single node may do without is imported where it is used.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig, Listener
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError
from ledgerstone.fs import Filesystem
from ledgerstone.metadata.broker_life import Registration
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.image import Endpoint
from ledgerstone.metadata.topic_names import AUDIT
from ledgerstone.replication.fetch_session import FetchSessions
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.security.authorizer import Authorizer
from ledgerstone.server.broker import Broker, Dispatch
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.controlling.composition import link_of
from ledgerstone.server.directories.opening import open_log_dirs
from ledgerstone.server.dispatch import CONTROLLER_HANDLED, HANDLED, dispatch, dispatch_through
from ledgerstone.server.erasing.scans import Scans
from ledgerstone.server.formatting.checking import check_formatted, read_bootstrap_records
from ledgerstone.server.groups.shards import HostedShards
from ledgerstone.server.log_agents import build_log_agents
from ledgerstone.server.producer_ids import ProducerIds
from ledgerstone.server.quorum.opening import open_quorum
from ledgerstone.server.stages import Stages
from ledgerstone.server.tombstones.cluster_offsets import ClusterOffsets
from ledgerstone.server.tombstones.holds import TombstoneHolds
from ledgerstone.server.transactions.shards import TransactionShards
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.uuid_text import random_uuid

if TYPE_CHECKING:
    from ledgerstone.server.auditing.auditor import Auditor


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a broker is given of the world."""

    fs: Filesystem
    clock: Clock
    dice: Dice
    # Of the machine; another one after each time it lost its power. None: not known.
    boot_id: str | None = None


def open_broker(
    config: BrokerConfig, world: Surroundings, advertised: Sequence[Listener]
) -> Broker:
    """Everything but sockets: a broker that could serve. `advertised` has the real ports."""
    try:
        check_formatted(world.fs, config)
    except OSError as error:
        path = config.cluster.metadata_log_dir
        raise ConfigError("log.dirs", path, f"cannot be used: {error}") from error
    log_dirs = open_log_dirs(config, world.fs, world.clock, world.dice, boot_id=world.boot_id)
    auditor = None
    try:
        auditor = _auditor(config, world)
        return _compose(config, world, advertised, log_dirs, auditor)
    except BaseException:
        log_dirs.release()
        if auditor is not None:
            auditor.release()
        raise


def _compose(
    config: BrokerConfig,
    world: Surroundings,
    advertised: Sequence[Listener],
    log_dirs: LogDirs,
    auditor: "Auditor | None",
) -> Broker:
    log_dir = log_dirs.metadata
    quorum = open_quorum(config, world.clock, world.dice, log_dir, advertised)
    link, controller = link_of(
        config,
        world.clock,
        world.dice,
        quorum,
        cluster_id=log_dir.meta.cluster_id or "",
        bootstrap=read_bootstrap_records(world.fs, log_dir.path),
    )
    quorum.start(link)
    partitions = HostedPartitions(
        log_dirs, config.node_id, config.raw, max_lag_ms=config.replica_lag_time_max_ms
    )
    if not config.cluster.is_configured:
        _register(config, world, advertised, log_dirs, link, controller)
        partitions.load(link.image, quorum.topic_ids)
    # The link's image is the one that the broker has published.
    shards = HostedShards(lambda: link.image)
    txn_shards = TransactionShards(lambda: link.image, config.node_id)
    offsets = ClusterOffsets(world.clock, lambda: link.image, shards, config.node_id)
    scans = Scans()
    agents = build_log_agents(
        config=config,
        clock=world.clock,
        dice=world.dice,
        log_dirs=log_dirs,
        partitions=partitions,
        holds=TombstoneHolds(offsets),
        txn_owners=txn_shards,
        searching=scans,
        image=link.image,
        newest_image=lambda: link.image,
    )
    authorizer = _authorizer(config)
    broker = Broker(
        config=config,
        clock=world.clock,
        dice=world.dice,
        dispatch=_dispatch(config, authorizer, auditor),
        handled=HANDLED,
        controller_handled=CONTROLLER_HANDLED,
        log_dirs=log_dirs,
        quorum=quorum,
        controller_link=link,
        producer_ids=ProducerIds(link.ask, lambda: link.image, config.node_id, world.clock),
        partitions=partitions,
        shards=shards,
        txn_shards=txn_shards,
        fetch_sessions=FetchSessions(world.dice, config.max_incremental_fetch_session_cache_slots),
        scans=scans,
        disk=agents.disk,
        housekeeping=agents.housekeeping,
        cleaning=agents.cleaning,
        near_tombstones=agents.near_tombstones,
        anatomy=agents.anatomy,
        authorizer=authorizer,
        auditor=auditor,
    )
    _begin(broker, advertised, offsets)
    return broker


def _begin(broker: Broker, advertised: Sequence[Listener], offsets: ClusterOffsets) -> None:
    if broker.auditor is not None:
        from ledgerstone.server.auditing.opening import attend

        attend(broker, broker.auditor)
    if broker.config.cluster.is_configured:
        _begin_in_cluster(broker, advertised, offsets)
    else:
        _begin_alone(broker)


def _begin_in_cluster(
    broker: Broker, advertised: Sequence[Listener], offsets: ClusterOffsets
) -> None:
    broker.partitions.cleaning_knowledge = broker.cleaning.knowledge()
    # A single node does without it, and without what it imports.
    from ledgerstone.server.cluster_join import join_cluster

    join_cluster(broker, advertised, offsets)


def _authorizer(config: BrokerConfig) -> Authorizer | None:
    if not config.authorizer_class_name:
        return None
    return Authorizer(
        super_users=config.super_users,
        allows_without_acls=config.allow_everyone_if_no_acl_found,
        guarded_topics=(AUDIT,),
    )


def _auditor(config: BrokerConfig, world: Surroundings) -> "Auditor | None":
    if config.ledgerstone_audit_dir is None:
        return None
    from ledgerstone.server.auditing.opening import open_auditor

    return open_auditor(config, world.fs, world.clock, world.dice)


def _dispatch(
    config: BrokerConfig, authorizer: Authorizer | None, auditor: "Auditor | None"
) -> Dispatch:
    stages = Stages()
    # A broker does without what it does not use, and without what that imports.
    if authorizer is not None:
        from ledgerstone.server.authorising.stage import authorised

        stages = stages._replace(authorised=authorised(authorizer))
    if auditor is not None:
        from ledgerstone.server.auditing.stage import audited

        stages = stages._replace(audited=audited(auditor))
    if any(each.uses_sasl for each in config.listener_protocols.values()):
        from ledgerstone.server.login.stage import authenticated

        stages = stages._replace(authenticated=authenticated)
    return dispatch_through(stages) if any(stages) else dispatch


def _begin_alone(broker: Broker) -> None:
    broker.cleaning.load()
    broker.directories.load()
    broker.following.leadership()
    broker.following.load_all_coordinators()
    broker.erasing_on_demand.load()


def _register(
    config: BrokerConfig,
    world: Surroundings,
    advertised: Sequence[Listener],
    log_dirs: LogDirs,
    link: ControllerLink,
    controller: Controller,
) -> None:
    registration = Registration(
        broker_id=config.node_id,
        incarnation_id=random_uuid(world.dice),
        endpoints=[
            Endpoint(each.name, each.host, each.port, config.listener_protocols[each.name])
            for each in advertised
        ],
        rack=config.broker_rack,
        log_dirs=log_dirs.online_ids,
        stopped_cleanly=log_dirs.stopped_cleanly,
    )
    epoch = link.quorum.end_offset
    link.write(controller.register_broker(registration, broker_epoch=epoch))
    link.write(controller.unfence_broker(config.node_id, broker_epoch=epoch))
