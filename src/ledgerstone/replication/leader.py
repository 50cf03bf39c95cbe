"""What a broker does for a partition that it leads: append, and commit what every replica has.

Grade D, through the log. The high watermark is the smallest end offset among the in-sync replicas;
nothing else computes one. A follower whose progress is not known yet holds it back.
"""

from dataclasses import dataclass, field

from ledgerstone.errors import NotEnoughReplicas
from ledgerstone.metadata.image import PartitionImage
from ledgerstone.records.validation import Origin
from ledgerstone.storage.log import AppendResult, PartitionLog
from ledgerstone.storage.verification import TxnTerms
from ledgerstone.types import WritableBuffer


@dataclass(slots=True, kw_only=True)
class Leader:
    """`assume` changes what the metadata says; followers' fetches change `follower_end_offsets`."""

    log: PartitionLog
    leader_id: int
    leader_epoch: int
    # Where this broker's leadership began: no follower below it is in sync.
    epoch_start_offset: int
    min_insync_replicas: int = 1  # as configured
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    # How far the other replicas have got, by node id.
    follower_end_offsets: dict[int, int] = field(default_factory=dict)
    _in_sync_followers: tuple[int, ...] = ()

    @property
    def effective_min_isr(self) -> int:
        """A topic with fewer replicas than min.insync.replicas is served by those it has."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self.effective_min_isr

    def assume(self, state: PartitionImage) -> bool:
        """Replicas and ISR from now on; True if the high watermark moved. Offsets of followers
        stay: the same leader goes on, whatever the epoch."""
        self.leader_epoch, self.replicas, self.isr = state.leader_epoch, state.replicas, state.isr
        self._in_sync_followers = tuple(each for each in state.isr if each != self.leader_id)
        return self.advance_high_watermark()

    def append(
        self, records: WritableBuffer, acks: int, origin: Origin, terms: TxnTerms | None = None
    ) -> AppendResult:
        # The usual case is told without a call, because every produced batch comes here.
        if acks == -1 and len(self.isr) < self.min_insync_replicas and self.is_under_min_isr:
            raise NotEnoughReplicas(
                f"{self.log.topic_partition} has {len(self.isr)} in-sync replicas, "
                f"it needs {self.effective_min_isr}"
            )
        result = self.log.append_as_leader(
            records, leader_epoch=self.leader_epoch, origin=origin, terms=terms
        )
        self.advance_high_watermark()
        return result

    def advance_high_watermark(self) -> bool:
        """Everything every in-sync replica has; it does not move while there are too few."""
        if len(self.isr) < self.min_insync_replicas and self.is_under_min_isr:
            return False
        offset = self.log.log_end_offset
        for node in self._in_sync_followers:
            offset = min(offset, self.follower_end_offsets.get(node, 0))
        return self.log.advance_high_watermark(offset)
