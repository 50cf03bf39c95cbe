"""One partition as this broker hosts it: a log, and the role this broker has for it.

Grade D, through its log. The metadata gives the role; `leader` and `follower` say what it means.
"""

from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import (
    FencedLeaderEpoch,
    InvariantViolation,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from ledgerstone.metadata.image import PartitionImage
from ledgerstone.records.own_batch import OwnBatch
from ledgerstone.records.validation import Origin
from ledgerstone.replication.fetching.replica import FollowerAppend
from ledgerstone.replication.follower import Follower, TruncatesLogs, append_fetched
from ledgerstone.replication.isr import InSyncReplicas, IsrChange, IsrOutcome, Registered
from ledgerstone.replication.leader import Leader
from ledgerstone.replication.leadership import Leadership
from ledgerstone.replication.partition_removal import FollowerReport, PartitionRemoval
from ledgerstone.replication.removal import LeaderWord
from ledgerstone.storage.log import AppendResult, PartitionLog
from ledgerstone.storage.verification import TxnTerms, VerificationGuard
from ledgerstone.types import NO_LEADER_EPOCH, Buffer, TopicPartition, WritableBuffer

_NO_PARTITION_EPOCH: Final = -1
_MAX_LAG_MS: Final = 30_000


def _nobody(_: int) -> None:
    """Of a broker that knows no others."""


@dataclass(slots=True, kw_only=True)
class Partition:
    """Changed only by metadata (`assume`, `configure`) and by appends."""

    log: PartitionLog
    topic_id: bytes
    node_id: int
    # Cuts the log of a follower. None: the log is never cut.
    truncates: TruncatesLogs | None = None
    role: Leader | Follower = field(default_factory=Follower)
    partition_epoch: int = _NO_PARTITION_EPOCH
    min_insync_replicas: int = 1
    registered: Registered = _nobody
    max_lag_ms: int = _MAX_LAG_MS  # replica.lag.time.max.ms
    # None: there are no other brokers whose replicas could need a tombstone.
    removal: PartitionRemoval | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.topic_partition

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def leader_id(self) -> int:
        return self.role.leader_id

    @property
    def leader_epoch(self) -> int:
        return self.role.leader_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        return self.role.isr

    @property
    def is_in_sync(self) -> bool:
        return self.node_id in self.role.isr

    @property
    def effective_min_isr(self) -> int:
        return min(self.min_insync_replicas, len(self.role.replicas))

    def configure(self, min_insync_replicas: int) -> None:
        self.min_insync_replicas = min_insync_replicas
        if isinstance(self.role, Leader):
            self.role.min_insync_replicas = min_insync_replicas

    def assume(self, state: PartitionImage) -> Leadership | None:
        """What the metadata says from now on; what became of this broker's leadership, if anything.

        News older than what is known is ignored; of the same epoch it may be the answer to a change
        of our own, which came first."""
        if state.partition_epoch < self.partition_epoch:
            return None
        self.partition_epoch = state.partition_epoch
        if state.leader == self.node_id:
            outcome = self._lead(state)
        else:
            outcome = Leadership.LOST if isinstance(self.role, Leader) else None
            self.role = Follower()
            self.role.assume(state)
        if self.removal is not None:
            self.removal.assume(self.role)
        return outcome

    def _lead(self, state: PartitionImage) -> Leadership | None:
        role, end_offset = self.role, self.log.log_end_offset
        if state.leader_epoch > role.leader_epoch:
            # Synced before the first append of the epoch.
            self.log.lead_from(state.leader_epoch, end_offset)
        if isinstance(role, Leader):
            is_new_epoch = state.leader_epoch > role.leader_epoch
            if is_new_epoch:
                role.epoch_start_offset = end_offset
            has_committed = role.assume(state)
            if is_new_epoch:
                return Leadership.EPOCH_CHANGED
            return Leadership.COMMITTED if has_committed else None
        leader = Leader(
            log=self.log,
            leader_id=self.node_id,
            leader_epoch=state.leader_epoch,
            epoch_start_offset=end_offset,
            in_sync=InSyncReplicas(
                leader_id=self.node_id, registered=self.registered, max_lag_ms=self.max_lag_ms
            ),
            min_insync_replicas=self.min_insync_replicas,
        )
        self.role = leader
        leader.assume(state)
        return Leadership.GAINED

    def isr_agreed(
        self, change: IsrChange, isr: tuple[int, ...], *, leader_epoch: int, partition_epoch: int
    ) -> IsrOutcome:
        """The controller has agreed to a change. It may say so before the metadata does."""
        role = self.role
        if not isinstance(role, Leader):
            return IsrOutcome.OUTDATED
        outcome = role.in_sync.agreed(
            change, isr, leader_epoch=leader_epoch, partition_epoch=partition_epoch
        )
        self.partition_epoch = role.in_sync.partition_epoch
        return outcome

    def isr_refused(self, change: IsrChange, code: int) -> IsrOutcome:
        role = self.role
        return (
            role.in_sync.refused(change, code) if isinstance(role, Leader) else IsrOutcome.OUTDATED
        )

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuses requests about another epoch: older ones are over, newer ones not known yet."""
        role = self.role
        if current_leader_epoch != NO_LEADER_EPOCH and current_leader_epoch != role.leader_epoch:
            is_old = current_leader_epoch < role.leader_epoch
            error = FencedLeaderEpoch if is_old else UnknownLeaderEpoch
            raise error(
                f"{self.topic_partition} is at leader epoch {role.leader_epoch}, the request says "
                f"{current_leader_epoch}"
            )

    def check_leader(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Refuses requests about another epoch, then those that another broker has to serve.

        In this order, as in Kafka: who knows an epoch that we do not is told to wait for us, not to
        look elsewhere."""
        role = self.role
        if current_leader_epoch != NO_LEADER_EPOCH and current_leader_epoch != role.leader_epoch:
            self.check_epoch(current_leader_epoch)
        if type(role) is not Leader:
            raise NotLeaderOrFollower(f"{self.topic_partition} is led by {role.leader_id}")

    def append(
        self,
        records: WritableBuffer | OwnBatch,
        *,
        acks: int,
        origin: Origin = Origin.CLIENT,
        terms: TxnTerms | None = None,
    ) -> AppendResult:
        role = self.role
        if type(role) is not Leader:
            raise NotLeaderOrFollower(f"{self.topic_partition} is led by {role.leader_id}")
        return role.append(records, acks, origin, terms)

    # -- as a follower --------------------------------------------------------------------------

    def append_as_follower(
        self, records: Buffer, *, leader_epoch: int, high_watermark: int, log_start_offset: int
    ) -> FollowerAppend:
        """What the leader answered, in the epoch it was asked in."""
        self._check_follower(leader_epoch)
        return append_fetched(
            self.log,
            self.truncates,
            records,
            leader_epoch=leader_epoch,
            high_watermark=high_watermark,
            log_start_offset=log_start_offset,
        )

    def removal_report(self) -> FollowerReport | None:
        """What the leader has to know before it removes tombstones; None: nothing."""
        return None if self.removal is None else self.removal.report()

    def must_rebuild(self, word: LeaderWord | None) -> bool:
        return self.removal is not None and self.removal.must_rebuild(word)

    def hear(self, word: LeaderWord | None, *, has_records: bool) -> None:
        if self.removal is not None:
            self.removal.hear(word, has_records=has_records)

    def truncate_to(self, offset: int) -> None:
        """Drops what the leader does not have."""
        self._check_follower()
        self._truncates.truncate_to(self.topic_partition, offset)

    def restart_at(self, offset: int) -> None:
        """Drops everything; the log begins again at `offset`, empty."""
        self._check_follower()
        self._truncates.truncate_fully_and_start_at(self.topic_partition, offset)
        if self.removal is not None:
            self.removal.wiped()

    def rebuild_at(self, offset: int) -> None:
        """Starts over, because the leader may lack deletes that this log needs."""
        self.restart_at(offset)
        if self.removal is not None:
            self.removal.rebuilds += 1

    def _check_follower(self, leader_epoch: int | None = None) -> None:
        role = self.role
        if type(role) is Leader or leader_epoch not in (None, role.leader_epoch):
            raise NotLeaderOrFollower(
                f"{self.topic_partition} is led by {role.leader_id} in epoch {role.leader_epoch}, "
                f"and no follower in epoch {leader_epoch}"
            )

    @property
    def _truncates(self) -> TruncatesLogs:
        if self.truncates is None:
            raise InvariantViolation(f"{self.topic_partition} has no log directory that cuts it")
        return self.truncates

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Before the coordinator of a transaction is asked about this partition; None: no need, as
        the transaction has data here. InvalidProducerEpoch for a producer that was replaced."""
        self.check_leader()
        return self.log.producers.start_verification(
            producer_id,
            producer_epoch,
            sequence,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=self.log.clock.now_ms(),
        )
