"""The machines of a broker, composed: no sockets, no loop. Grade D.

Each gets the narrow things it needs; most need the turn, to answer, append or act in it, and find
here what the others are told of it.
"""

from functools import partial
from typing import TYPE_CHECKING

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import UnknownTopicId
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.replication.fetch_session import FetchSessions
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.security.authorizer import Authorizer
from ledgerstone.server.agents import Agents
from ledgerstone.server.anatomy.book import AnatomyBook
from ledgerstone.server.apply_faults import ApplyFaults
from ledgerstone.server.cleaning.agent import Cleaning
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.directories.agent import Directories
from ledgerstone.server.erasing.on_demand import ErasingOnDemand
from ledgerstone.server.erasing.scans import Scans
from ledgerstone.server.following import Following
from ledgerstone.server.groups.agent import Groups
from ledgerstone.server.groups.shards import HostedShards
from ledgerstone.server.housekeeping.agent import Housekeeping
from ledgerstone.server.housekeeping.disk_watch import DiskWatch
from ledgerstone.server.isr.agent import IsrAgent
from ledgerstone.server.login.logins import Logins
from ledgerstone.server.markers import PartitionMarkers
from ledgerstone.server.metrics import TlsFacts
from ledgerstone.server.peers import Peers
from ledgerstone.server.producer_ids import ProducerIds
from ledgerstone.server.quorum.agent import QuorumAgent
from ledgerstone.server.quotas.agent import QuotaAgent
from ledgerstone.server.quotas.client_quotas import ClientQuotas
from ledgerstone.server.quotas.connection_quotas import ConnectionQuotas
from ledgerstone.server.state_agents import build_state_agents
from ledgerstone.server.tombstones.near import NearTombstoneWatch
from ledgerstone.server.transactions.agent import Transactions
from ledgerstone.server.transactions.shards import TransactionShards
from ledgerstone.server.turn import BrokerTurn
from ledgerstone.server.verification import TxnVerification
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    # A single node does without them, or without them at first.
    from ledgerstone.server.auditing.auditor import Auditor
    from ledgerstone.server.broker_life.joining import ClusterMembership
    from ledgerstone.server.erasing.agent import Erasing


@dataclass(slots=True, kw_only=True)
class Machines(BrokerTurn):
    """Made by bootstrap, which opens the log directory and replays the metadata first."""

    config: BrokerConfig
    dice: Dice
    handled: frozenset[int]
    controller_handled: frozenset[int]
    log_dirs: LogDirs
    quorum: QuorumAgent
    controller_link: ControllerLink
    producer_ids: ProducerIds
    partitions: HostedPartitions
    shards: HostedShards
    txn_shards: TransactionShards
    scans: Scans
    fetch_sessions: FetchSessions
    disk: DiskWatch
    housekeeping: Housekeeping
    cleaning: Cleaning
    near_tombstones: NearTombstoneWatch
    anatomy: AnatomyBook
    # None: everybody may do everything.
    authorizer: Authorizer | None = None
    auditor: "Auditor | None" = None
    quota_agent: QuotaAgent = field(init=False)
    groups: Groups = field(init=False)
    transactions: Transactions = field(init=False)
    erasing_on_demand: ErasingOnDemand = field(init=False)
    markers: PartitionMarkers = field(init=False)
    verification: TxnVerification = field(init=False)
    agents: Agents = field(init=False)
    following: Following = field(init=False)
    directories: Directories = field(init=False)
    isr: IsrAgent = field(init=False)
    logins: Logins = field(init=False)
    # Topics that a controller elsewhere was asked to make, since a Metadata named them.
    auto_creating: dict[str, None] = field(default_factory=dict)
    # Of a node of a cluster; None where there is no cluster.
    membership: "ClusterMembership | None" = None
    # Of a node with TLS, for operators.
    tls: TlsFacts | None = None

    def __post_init__(self) -> None:
        self.peers = Peers(self.config, self.handled, self.controller_handled)
        self.quotas = ClientQuotas(self.config)
        self.logins = Logins(
            self.config,
            self.clock,
            self.dice,
            image=lambda: self.controller_link.image,
            counters=self.counters,
            turn=self,
        )
        self._add_state_agents()
        self.agents.add(self.markers)
        if self.auditor is not None:
            self.agents.add(self.auditor)
        self.agents.add(self.verification)
        self.agents.add(self.producer_ids)
        self._add_quotas()
        self.following = Following(
            turn=self,
            partitions=self.partitions,
            disk=self.disk,
            counters=self.counters,
            near_tombstones=self.near_tombstones,
            cleaning=self.cleaning,
            groups=self.groups,
            transactions=self.transactions,
            erasing=self.erasing_on_demand,
            markers=self.markers,
            agents=self.agents,
            faults=ApplyFaults(self.clock),
            authorizer=self.authorizer,
        )
        self.partitions.guard = self.following.faults.guard
        self.erasing_on_demand.on_made = self._erasing_made
        self._add_replica_agents()
        self.agents.add_quorum(self.quorum)
        self.agents.add_dialling(self.quorum.calls.purpose, self.quorum.calls)
        self.quorum.turn = self.quorum.calls.turn = self
        self.controller_link.subscriber = self.following
        if self.authorizer is not None:
            self.authorizer.follow(added=self.image.acls.values())

    def _add_state_agents(self) -> None:
        """Groups, transactions and erasures, beside what looks after the logs."""
        (
            self.groups,
            self.markers,
            self.transactions,
            self.verification,
            self.erasing_on_demand,
        ) = build_state_agents(
            config=self.config,
            clock=self.clock,
            dice=self.dice,
            log_dirs=self.log_dirs,
            image=lambda: self.controller_link.image,
            partitions=self.partitions,
            controller=self.controller_link,
            producer_ids=self.producer_ids,
            shards=self.shards,
            txn_shards=self.txn_shards,
            scans=self.scans,
            cleaning=self.cleaning,
            disk=self.disk,
            unlinking=self.housekeeping,
            turn=self,
        )
        self.agents = Agents(
            groups=self.groups,
            transactions=self.transactions,
            housekeeping=self.housekeeping,
            erasing=self.erasing_on_demand,
            cleaning=self.cleaning,
            anatomy=self.anatomy,
        )

    def _erasing_made(self, erasing: "Erasing") -> None:
        self.agents.replace(self.erasing_on_demand, erasing)
        self.following.erasing = erasing

    def _add_quotas(self) -> None:
        self.quota_agent = QuotaAgent(
            clock=self.clock,
            image=lambda: self.controller_link.image,
            clients=self.quotas,
            connections=ConnectionQuotas(self.config),
            settings=lambda: self.image.broker_values(self.config.node_id, self.config.raw),
            set_caps=self.peers.set_caps,
        )
        self.agents.add(self.quota_agent)
        self.controller_link.quotas = self.quotas
        self.quota_agent.load()

    def _add_replica_agents(self) -> None:
        """What looks after directories, and after replicas that are in sync."""
        self.directories = Directories(
            clock=self.clock,
            node_id=self.config.node_id,
            log_dirs=self.log_dirs,
            partitions=self.partitions,
            cleaning=self.cleaning,
            turn=self,
            image=lambda: self.controller_link.image,
            ask=self.controller_link.ask,
            leadership=self.following.leadership,
            settings=lambda: self.image.broker_values(self.config.node_id, self.config.raw),
        )
        self.agents.add_directories(self.directories)
        self.isr = IsrAgent(
            config=self.config,
            clock=self.clock,
            partitions=self.partitions,
            image=lambda: self.controller_link.image,
            ask=partial(self.controller_link.ask, by_broker=True),
            counters=self.counters,
            moved=self.following.high_watermark_moved,
        )

    # -- what handlers ask --------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """What is committed of the metadata."""
        return self.controller_link.committed_image.image

    @property
    def log_dir(self) -> LogDir:
        """The directory of the metadata log; with one directory, the one of everything."""
        return self.log_dirs.metadata

    @property
    def erasing(self) -> "Erasing":
        """Made by the first who asks."""
        return self.erasing_on_demand.agent()

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.image.topic_names.get(topic_id)

    def partition_of(self, topic: str | bytes, number: int) -> Partition:
        """By name or by topic id."""
        if isinstance(topic, str):
            return self.partitions.get(TopicPartition(topic, number))
        # Written out: every Fetch by topic id comes here.
        name = self.controller_link.committed_image.image.topic_names.get(topic)
        if name is None:
            raise UnknownTopicId(f"topic id {topic.hex()} is not known")
        return self.partitions.get(TopicPartition(name, number))

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Host and port of a broker's first listener; of its own before it is registered."""
        registered = self.image.brokers.get(node_id)
        endpoints = () if registered is None else registered.endpoints
        first = endpoints[0] if endpoints else self.config.listeners[0]
        return first.host, first.port

    # -- what they tell one another -----------------------------------------------------------

    def appended(self, topic_partition: TopicPartition, size: int = 0) -> None:
        # Written out, as every produced batch comes here.
        if topic_partition in self.purgatory.awaited:
            self._grown[topic_partition] = None
        if self.disk.refusals:
            self.disk.accepted(str(topic_partition))
        topic, counters = topic_partition.topic, self.counters
        counters.batches_in[topic] = counters.batches_in.get(topic, 0) + 1
        counters.bytes_in[topic] = counters.bytes_in.get(topic, 0) + size

    def replicated(self, topic_partition: TopicPartition) -> None:
        self.following.replicated(topic_partition)

    def high_watermark_moved(self, topic_partition: TopicPartition) -> None:
        self.following.high_watermark_moved(topic_partition)

    def host_topic(self, topic: str) -> None:
        """Makes what is missing of a topic now, for callers that cannot wait."""
        self.following.host_topic(topic)

    def log_failed(self, topic_partition: TopicPartition | None, error: Exception) -> None:
        self.disk.log_failed(topic_partition, error, self.clock.monotonic_ms())
        if topic_partition is not None:
            self.log_dirs.partition_error(topic_partition, error)
        if self.log_dirs.has_failures:
            self.may_be_due_sooner = True

    def check_invariants(self) -> None:
        self.peers.check_invariants()
        for request in self.purgatory.requests():
            assert self.peers.by_number[request.connection].in_work is request, request
        assert not self._effects
        assert not self._grown
        assert not self._answered
        assert not self.following.faults.count, self.following.faults.by_part
        self.image.check_invariants()
        self.partitions.check_invariants()
        self.groups.check_invariants()
        self.transactions.check_invariants()
        self.cleaning.check_invariants()
        self.anatomy.check_invariants()
