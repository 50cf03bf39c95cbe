"""One partition as this broker hosts it: role, leader epoch, in-sync replicas, high watermark.

Grade D, through its log. Today every partition has one replica and this broker leads it, so the
high watermark follows the log's end. The rule is written for any number of in-sync replicas: it is
the smallest end offset among them, and follower progress is what a cluster will add here.
"""

from dataclasses import dataclass, field

from ledgerstone.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from ledgerstone.records.validation import Origin
from ledgerstone.storage.log import AppendResult, PartitionLog
from ledgerstone.types import NO_LEADER_EPOCH, TopicPartition, WritableBuffer


@dataclass(slots=True, kw_only=True)
class Partition:
    """Changed only by metadata (`lead`) and by appends."""

    log: PartitionLog
    topic_id: bytes
    node_id: int
    leader_id: int = -1
    leader_epoch: int = NO_LEADER_EPOCH
    isr: tuple[int, ...] = ()
    min_insync_replicas: int = 1
    # End offsets of the other in-sync replicas, by node id.
    follower_end_offsets: dict[int, int] = field(default_factory=dict)

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.topic_partition

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.node_id

    def assume(self, *, leader_id: int, leader_epoch: int, isr: tuple[int, ...]) -> None:
        """What the metadata says from now on. A new leader notes where its epoch begins at once."""
        newly_led = leader_id == self.node_id and leader_epoch > self.leader_epoch
        self.leader_id, self.leader_epoch, self.isr = leader_id, leader_epoch, isr
        if newly_led:
            self.log.note_leader_epoch(leader_epoch, self.log.log_end_offset)
            self.follower_end_offsets.clear()
            self.advance_high_watermark()

    def check_leader(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Refuses who asks the wrong broker, or the right one about another epoch."""
        if not self.is_leader:
            raise NotLeaderOrFollower(f"{self.topic_partition} is led by {self.leader_id}")
        if current_leader_epoch == NO_LEADER_EPOCH:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(
                f"{self.topic_partition} is at leader epoch {self.leader_epoch}, the request says "
                f"{current_leader_epoch}"
            )
        if current_leader_epoch > self.leader_epoch:
            raise UnknownLeaderEpoch(
                f"{self.topic_partition} is at leader epoch {self.leader_epoch}, the request knows "
                f"{current_leader_epoch}"
            )

    def append(
        self, records: WritableBuffer, *, acks: int, origin: Origin = Origin.CLIENT
    ) -> AppendResult:
        if self.leader_id != self.node_id:
            self.check_leader()
        if acks == -1 and len(self.isr) < self.min_insync_replicas:
            raise NotEnoughReplicas(
                f"{self.topic_partition} has {len(self.isr)} in-sync replicas, "
                f"min.insync.replicas is {self.min_insync_replicas}"
            )
        result = self.log.append_as_leader(records, leader_epoch=self.leader_epoch, origin=origin)
        self.advance_high_watermark()
        return result

    def advance_high_watermark(self) -> bool:
        """Everything every in-sync replica has; it does not move while there are too few."""
        if len(self.isr) < self.min_insync_replicas:
            return False
        offset = self.log.log_end_offset
        for node in self.isr:
            if node != self.node_id:
                offset = min(offset, self.follower_end_offsets.get(node, 0))
        return self.log.advance_high_watermark(offset)
