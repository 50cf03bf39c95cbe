"""Which groups hold the tombstones of a partition at this moment. Grade D, through the logs.

What a hold means is in `cleaner.holds`; a setting of the topic names the groups.
"""

from collections.abc import Mapping
from typing import Protocol

from ledgerstone.cleaner.holds import EVERY_GROUP, NO_HOLDS, GroupHold, Holds
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.dataclasses import dataclass
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition


class CommittedOffsets(Protocol):
    """What groups have committed."""

    def committed_on(self, topic: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """By group, then by partition; groups without a commit in the topic are not in it."""
        ...

    def are_known(self) -> bool:
        """Whether every group that ever committed something is known."""
        ...

    def knows(self, group_id: str) -> bool:
        """Whether it is known what the group has committed."""
        ...


@dataclass(frozen=True, slots=True)
class TombstoneHolds:
    offsets: CommittedOffsets

    def committed_on(self, tp: TopicPartition) -> dict[str, int]:
        """The offset of every group that has committed one in the partition."""
        return {
            group_id: partitions[tp.partition].offset
            for group_id, partitions in self.offsets.committed_on(tp.topic).items()
            if tp.partition in partitions
        }

    def of(self, log: PartitionLog) -> Holds:
        """A group that counts and has committed nothing in the partition holds everything there."""
        names = log.config.ledgerstone_tombstone_hold_groups
        topic, number = log.topic_partition
        if not names or topic in INTERNAL_TOPICS:
            return NO_HOLDS
        known = self.offsets.committed_on(topic)
        wanted = [name for name in dict.fromkeys(names) if name != EVERY_GROUP]
        if EVERY_GROUP in names:
            wanted += [group_id for group_id in known if group_id not in wanted]
            if not self.offsets.are_known():
                # Any group may read the topic, so no tombstone may go.
                wanted.append(EVERY_GROUP)
        committed = {group_id: known.get(group_id, {}).get(number) for group_id in wanted}
        return Holds(
            groups=tuple(
                GroupHold(group_id, None if found is None else found.offset)
                for group_id, found in committed.items()
            ),
            max_ms=log.config.ledgerstone_tombstone_hold_max_ms,
        )
