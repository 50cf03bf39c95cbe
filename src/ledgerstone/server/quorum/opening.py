"""Opens a node's replica of the metadata quorum, from its settings and its disk. Grade D.

A node without `process.roles` is a quorum of its own: one static voter, nothing to format, and the
log of an older release will do. All others take their voters from `controller.quorum.voters`, or,
if that is empty, from the log and the snapshots that a format wrote.
"""

from collections.abc import Sequence
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.cluster import ClusterConfig
from ledgerstone.config.listeners import Listener as ConfigListener
from ledgerstone.dataclasses import replace
from ledgerstone.errors import KafkaError
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.raft.events import Now
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.quorum_state_file import QuorumStateFile
from ledgerstone.raft.replica import Listener, Peer, ReplicaKey
from ledgerstone.raft.settings import Identity, Settings
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.server.calls import Calls
from ledgerstone.server.formatting.checking import check_voters
from ledgerstone.server.quorum.agent import QuorumAgent, QuorumParts
from ledgerstone.server.quorum.consuming import QuorumConsumer
from ledgerstone.server.quorum.disk_log import LOG_CONFIG, open_disk_log, refusal
from ledgerstone.server.quorum.own_snapshots import OwnSnapshots, SnapshotRules
from ledgerstone.server.quorum.snapshot_files import SnapshotFiles
from ledgerstone.storage.log_dir import LogDir

PURPOSE: Final = "quorum"
# Bootstrap servers have ids from here down: their nodes are not known.
_FIRST_BOOTSTRAP_ID: Final = -2


def open_quorum(
    config: BrokerConfig,
    clock: Clock,
    dice: Dice,
    log_dir: LogDir,
    advertised: Sequence[ConfigListener],
) -> QuorumAgent:
    """`advertised` are this node's listeners with their real ports. StorageError, and nothing
    changed, if log, snapshots or vote are damaged."""
    cluster = config.cluster
    log = open_disk_log(
        log_dir,
        is_synced_in_order=not cluster.is_configured,
        config=replace(
            LOG_CONFIG,
            segment_bytes=cluster.metadata_log_segment_bytes,
            segment_ms=cluster.metadata_log_segment_ms,
        ),
    )
    directory = log.log.directory
    snapshots = SnapshotFiles(log_dir.fs, clock, directory, log.log.deleted_files)
    log.remember_snapshots(snapshots.ids())
    state_file = QuorumStateFile(log_dir.fs, directory)
    identity = _identity(config, log_dir, advertised)
    try:
        node = RaftNode(
            identity=identity,
            settings=_settings(cluster),
            log=log,
            snapshots=snapshots,
            hard_state=state_file.load(),
            static_voters=_static_voters(cluster, identity),
            bootstrap=_bootstrap(cluster),
            dice=dice,
            now=Now(clock.monotonic_ms(), clock.now_ms()),
        )
    except (KafkaError, ProtocolViolation, ValueError) as error:
        raise refusal(f"{directory}: {error}") from error
    check_voters(config, node.voters.ids)
    rules = SnapshotRules(
        cluster.metadata_log_max_record_bytes_between_snapshots,
        # A single node keeps its log: it tells topics that were deleted from those never known.
        cluster.metadata_log_max_snapshot_interval_ms if cluster.is_configured else 0,
    )
    return QuorumAgent(
        QuorumParts(
            node=node,
            log=log,
            snapshots=snapshots,
            state_file=state_file,
            consumer=QuorumConsumer(log, snapshots, OwnSnapshots(rules), clock),
            clock=clock,
            calls=Calls(
                PURPOSE,
                clock,
                client_id=f"raft-client-{config.node_id}",
                listener=next(iter(cluster.controller_listener_names), ""),
            ),
        )
    )


def _identity(
    config: BrokerConfig, log_dir: LogDir, advertised: Sequence[ConfigListener]
) -> Identity:
    cluster, meta = config.cluster, log_dir.meta
    names = cluster.controller_listener_names
    # A single node has no listener for controllers: the first of its own will do.
    own = [each for each in advertised if each.name in names] if names else list(advertised[:1])
    key = ReplicaKey(config.node_id)
    if meta.directory_id is not None:
        key = ReplicaKey(config.node_id, meta.directory_id)
    return Identity(
        key=key,
        cluster_id=meta.cluster_id or "",
        listeners=tuple(Listener(each.name, each.host, each.port) for each in own),
        listener_name=names[0] if names else own[0].name,
        is_controller=cluster.is_controller,
    )


def _static_voters(cluster: ClusterConfig, identity: Identity) -> VoterSet:
    """Their directories are not known."""
    if not cluster.is_configured:
        return VoterSet([Voter(key=ReplicaKey(identity.key.id), listeners=identity.listeners)])
    name = cluster.controller_listener_names[0]
    return VoterSet(
        Voter(key=ReplicaKey(each.id), listeners=(Listener(name, each.host, each.port),))
        for each in cluster.voters
    )


def _bootstrap(cluster: ClusterConfig) -> list[Peer]:
    """A static quorum's voters are where to look for its leader."""
    servers = [(each.host, each.port) for each in cluster.bootstrap_servers or cluster.voters]
    return [Peer(_FIRST_BOOTSTRAP_ID - n, *server) for n, server in enumerate(servers)]


def _settings(cluster: ClusterConfig) -> Settings:
    return Settings(
        election_timeout_ms=cluster.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=cluster.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=cluster.controller_quorum_election_backoff_max_ms,
        request_timeout_ms=cluster.controller_quorum_request_timeout_ms,
        retry_backoff_ms=cluster.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=cluster.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=cluster.controller_quorum_fetch_snapshot_max_bytes,
        auto_join=cluster.controller_quorum_auto_join_enable,
        retention_bytes=cluster.metadata_max_retention_bytes,
        retention_ms=cluster.metadata_max_retention_ms,
    )
