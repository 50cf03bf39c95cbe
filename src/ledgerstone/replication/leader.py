"""What a broker does for a partition that it leads: append, and commit what every replica has.

Grade D, through the log. `isr` says how far the in-sync replicas have got; nothing else computes a
high watermark. A follower whose progress is not known yet holds it back.
"""

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import NotEnoughReplicas, NotLeaderOrFollower, UnknownLeaderEpoch
from ledgerstone.metadata.image import PartitionImage
from ledgerstone.records.own_batch import OwnBatch
from ledgerstone.records.validation import Origin
from ledgerstone.replication.isr import InSyncReplicas, IsrChange
from ledgerstone.storage.log import AppendResult, PartitionLog
from ledgerstone.storage.verification import TxnTerms
from ledgerstone.types import NO_LEADER_EPOCH, WritableBuffer


@dataclass(slots=True, kw_only=True)
class Leader:
    """`assume` changes what the metadata says; `follower_fetched` what followers have."""

    log: PartitionLog
    leader_id: int
    leader_epoch: int
    # Where this broker's leadership began: no follower below it is in sync.
    epoch_start_offset: int
    in_sync: InSyncReplicas
    min_insync_replicas: int = 1  # as configured
    replicas: tuple[int, ...] = ()
    # A proposal that the controller has not been asked about yet.
    _unsent: IsrChange | None = None

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed one."""
        return self.in_sync.committed

    @property
    def effective_min_isr(self) -> int:
        """A topic with fewer replicas than min.insync.replicas is served by those it has."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self.effective_min_isr

    @property
    def has_enough_for_commit(self) -> bool:
        """Whether what the high watermark has passed is on as many replicas as acks=all needs."""
        return len(self.in_sync.maximal) >= self.effective_min_isr

    @property
    def is_settled(self) -> bool:
        """False while the high watermark may be behind what former leaders have committed."""
        return self.log.high_watermark >= self.epoch_start_offset

    def assume(self, state: PartitionImage) -> bool:
        """Replicas and ISR from now on; True if the high watermark moved. Offsets of followers
        stay: the same leader goes on, whatever the epoch."""
        self.leader_epoch, self.replicas = state.leader_epoch, state.replicas
        self.in_sync.assume(
            state,
            leader_end_offset=self.log.log_end_offset,
            now_ms=self.log.clock.monotonic_ms(),
        )
        if self.in_sync.pending is None:
            self._unsent = None
        return self.advance_high_watermark()

    def append(
        self,
        records: WritableBuffer | OwnBatch,
        acks: int,
        origin: Origin,
        terms: TxnTerms | None = None,
    ) -> AppendResult:
        # The usual case is told without a call, because every produced batch comes here.
        in_sync = len(self.in_sync.committed)
        if acks == -1 and in_sync < self.min_insync_replicas and self.is_under_min_isr:
            raise NotEnoughReplicas(
                f"{self.log.topic_partition} has {in_sync} in-sync replicas, "
                f"it needs {self.effective_min_isr}"
            )
        result = self.log.append_as_leader(
            records, leader_epoch=self.leader_epoch, origin=origin, terms=terms
        )
        self.advance_high_watermark()
        return result

    def advance_high_watermark(self) -> bool:
        """Everything every in-sync replica has; it does not move while there are too few."""
        in_sync, log = self.in_sync, self.log
        if len(in_sync.committed) < self.min_insync_replicas and self.is_under_min_isr:
            return False
        if not in_sync.followers:
            return log.advance_high_watermark(log.log_end_offset)
        end_offset = in_sync.common_end(log.log_end_offset, log.clock.monotonic_ms())
        return log.advance_high_watermark(end_offset)

    # -- followers ----------------------------------------------------------------------------

    def check_follower(self, replica_id: int, current_leader_epoch: int) -> None:
        """Before anything is read for it. One that is not assigned may know a newer assignment, if
        it knows our epoch at all."""
        if replica_id in self.in_sync.followers:
            return
        words = f"{replica_id} is not a replica of {self.log.topic_partition}"
        if current_leader_epoch == NO_LEADER_EPOCH:
            raise NotLeaderOrFollower(words)
        raise UnknownLeaderEpoch(words)

    def follower_fetched(
        self,
        replica_id: int,
        *,
        fetch_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        now_ms: int,
    ) -> bool:
        """A follower asked for `fetch_offset`, so it has what is before; True if the high watermark
        moved. After a read that succeeded, in the same turn: the log has not grown since.
        A fetch of a former life of the broker changes nothing."""
        in_sync = self.in_sync
        if in_sync.is_stale(replica_id, broker_epoch):
            raise NotLeaderOrFollower(f"broker epoch {broker_epoch} of {replica_id} is over")
        follower = in_sync.followers[replica_id]
        has_moved = follower.end_offset != fetch_offset
        follower.fetched(
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
        )
        if replica_id not in in_sync.committed:
            change = in_sync.expand(
                replica_id,
                high_watermark=self.log.high_watermark,
                epoch_start=self.epoch_start_offset,
            )
            self._unsent = change or self._unsent
        return has_moved and self.advance_high_watermark()

    def check_lag(self, now_ms: int) -> bool:
        """By the clock: proposes to drop members that lag; True if the high watermark moved, which
        happens when a follower outside the ISR is not waited for any more."""
        if not self.in_sync.followers:
            return False
        self._unsent = self.in_sync.shrink(self.log.log_end_offset, now_ms) or self._unsent
        return self.advance_high_watermark()

    def take_change(self) -> IsrChange | None:
        """A proposal for the controller, once."""
        change, self._unsent = self._unsent, None
        return change
