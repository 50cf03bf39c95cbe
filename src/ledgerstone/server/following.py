"""What a broker does when the committed metadata or the lead of a partition has changed. Grade D.

Order matters: the image first, so that answers name the new leader; then logs and roles; then those
who act on leadership; then those who act on topics and settings. Whatever fails, the rest follows:
the metadata is committed by then. ACLs alone are not guarded: a node that may not know who has lost
a right must not go on.
"""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ledgerstone.dataclasses import dataclass
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.replay import Replayed
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS, ERASURES, TRANSACTION_STATE
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.leadership import LeadershipChanged
from ledgerstone.security.authorizer import Authorizer
from ledgerstone.server.agent import Agent
from ledgerstone.server.agents import Agents
from ledgerstone.server.apply_faults import ApplyFaults
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.effects import Effect
from ledgerstone.server.erasing.on_demand import FollowsJournal
from ledgerstone.server.groups.agent import Groups
from ledgerstone.server.housekeeping.disk_watch import DiskWatch
from ledgerstone.server.markers import PartitionMarkers
from ledgerstone.server.metrics import Counters
from ledgerstone.server.quorum.disk_log import METADATA_PARTITION
from ledgerstone.server.tombstones.near import NearTombstoneWatch
from ledgerstone.server.transactions.agent import Transactions
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    # A single node does without it.
    from ledgerstone.server.replicating.agent import Replicating


class FollowerTurn(Protocol):
    """The broker, as far as news of the metadata reach it."""

    def grew(self, topic_partition: TopicPartition) -> None:
        """Retries requests parked on the partition before the turn ends."""
        ...

    def act(self, effects: Iterable[Effect]) -> None: ...

    def log_failed(self, topic_partition: TopicPartition | None, error: Exception) -> None: ...


@dataclass(slots=True, kw_only=True)
class Following:
    """The broker's subscription to the metadata."""

    turn: FollowerTurn
    partitions: HostedPartitions
    disk: DiskWatch
    counters: Counters
    near_tombstones: NearTombstoneWatch
    cleaning: CleaningWork
    groups: Groups
    transactions: Transactions
    erasing: FollowsJournal
    markers: PartitionMarkers
    agents: Agents
    faults: ApplyFaults
    authorizer: Authorizer | None = None
    # Of a broker of a cluster: it fetches what others lead.
    replicating: "Replicating | None" = None

    def metadata_refused(self, error: Exception) -> None:
        self.turn.log_failed(METADATA_PARTITION, error)

    def metadata_committed(self, applied: Replayed) -> None:
        """Records are durable, and now true: image, hosted partitions, what waited for them."""
        turn = self.turn
        self.disk.accepted(str(METADATA_PARTITION))
        image, delta = applied
        if self.authorizer is not None:
            # First: nothing that the same batch brings may be seen by those who lost their rights.
            self.authorizer.follow(removed=delta.acls_removed, added=delta.acls_added)
        self.faults.guard("Partitions", "metadata", partial(self.partitions.apply, delta, image))
        for topic in delta.topics_deleted:
            self.near_tombstones.forget(topic.name)
            self.counters.forget(topic.name)
            for number in topic.partitions:
                turn.grew(TopicPartition(topic.name, number))
        self.leadership()
        self.tell_agents(delta)

    def tell_agents(self, delta: Delta) -> None:
        for agent in list(self.agents.all):
            name = type(agent).__name__
            self.faults.guard(name, "metadata", partial(self._tell, agent, delta))

    def _tell(self, agent: Agent, delta: Delta) -> None:
        self.turn.act(agent.metadata_changed(delta))

    def leadership(self) -> None:
        """Leaderships were gained or lost: parked requests are tried again, whose answer may be
        NOT_LEADER_OR_FOLLOWER now; coordinators and the journal of erasures load or resign. A new
        leader stops to fetch before that, and followers of a new leader begin."""
        followings = self.partitions.take_followings()
        guard, replicating = self.faults.guard, self.replicating
        if followings and replicating is not None:
            tell = partial(replicating.followings_changed, followings)
            guard("Replicating", "leaders", tell)
        events = self.partitions.take_events()
        for event in events:
            topic_partition = event.topic_partition
            about = str(topic_partition)
            self.turn.grew(topic_partition)
            guard("Markers", about, partial(self.markers.partition_changed, topic_partition))
            guard("Erasing", about, partial(self.erasing.partition_moved, topic_partition))
            guard("Coordinators", about, partial(self._coordinator_moved, event))
        if events:
            guard("Coordinators", "loading", self._load_slice)

    def _coordinator_moved(self, event: LeadershipChanged) -> None:
        if event.topic_partition.topic == CONSUMER_OFFSETS:
            self.groups.leadership_changed(event)
        elif event.topic_partition.topic == TRANSACTION_STATE:
            self.transactions.leadership_changed(event)
        elif event.topic_partition.topic == ERASURES:
            self.erasing.leadership_changed(event)

    def _load_slice(self) -> None:
        self.load_coordinators()

    def load_coordinators(self) -> bool:
        """One slice of what coordinators have to replay; True if there is more."""
        has_groups, has_transactions = (
            self.groups.go_on_loading(),
            self.transactions.go_on_loading(),
        )
        return has_groups or has_transactions

    def load_all_coordinators(self) -> None:
        """At the start of a single node: no client is connected yet that would wait for it."""
        while self.load_coordinators():
            pass

    def replicated(self, topic_partition: TopicPartition) -> None:
        """A log has grown here by what its leader sent. Nobody has looked for tombstones in it."""
        partition = self.partitions.find(topic_partition)
        if partition is not None:
            self.cleaning.appended(partition.log, 0)

    def high_watermark_moved(self, topic_partition: TopicPartition) -> None:
        """A follower has fetched, or this follower has learned how far its leader got: requests and
        decisions that waited for it may be answered."""
        self.turn.grew(topic_partition)
        self.markers.partition_changed(topic_partition)
        self.erasing.partition_moved(topic_partition)
        if topic_partition.topic == CONSUMER_OFFSETS:
            self.groups.high_watermark_moved(topic_partition.partition)
        elif topic_partition.topic == TRANSACTION_STATE:
            self.transactions.high_watermark_moved(topic_partition.partition)
        elif topic_partition.topic == ERASURES:
            self.erasing.journal_committed()

    def work_off(self) -> None:
        """One slice of partitions that are still to be made or removed."""
        for partition in self.partitions.work_off():
            self.cleaning.hosted(partition)
        self.leadership()

    def host_topic(self, topic: str) -> None:
        """Makes what is missing of a topic now, for callers that cannot wait."""
        for partition in self.partitions.work_off_topic(topic):
            self.cleaning.hosted(partition)
        self.leadership()
