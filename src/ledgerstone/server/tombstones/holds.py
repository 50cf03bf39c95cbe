"""Which groups hold the tombstones of a partition at this moment. Grade D, over a broker.

What a hold means is in `cleaner.holds`; who is named is a setting of the topic.
"""

from typing import TYPE_CHECKING

from ledgerstone.cleaner.holds import EVERY_GROUP, NO_HOLDS, GroupHold, Holds
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker


def committed_on(broker: "Broker", tp: TopicPartition) -> dict[str, int]:
    """The offset of every group that has committed one in the partition."""
    return {
        group_id: partitions[tp.partition].offset
        for group_id, partitions in broker.groups.committed_on(tp.topic).items()
        if tp.partition in partitions
    }


def holds_of(broker: "Broker", log: PartitionLog) -> Holds:
    """A group that counts and has committed nothing in the partition holds everything there."""
    names = log.config.ledgerstone_tombstone_hold_groups
    topic, number = log.topic_partition
    if not names or topic in INTERNAL_TOPICS:
        return NO_HOLDS
    known = broker.groups.committed_on(topic)
    wanted = [name for name in dict.fromkeys(names) if name != EVERY_GROUP]
    if EVERY_GROUP in names:
        wanted += [group_id for group_id in known if group_id not in wanted]
        if not broker.groups.are_loaded(broker):
            # Nobody knows yet who reads the topic, so nothing may go.
            wanted.append(EVERY_GROUP)
    committed = {group_id: known.get(group_id, {}).get(number) for group_id in wanted}
    return Holds(
        groups=tuple(
            GroupHold(group_id, None if found is None else found.offset)
            for group_id, found in committed.items()
        ),
        max_ms=log.config.ledgerstone_tombstone_hold_max_ms,
    )
