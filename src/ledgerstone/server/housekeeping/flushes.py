"""Flushes under way: one fsync at a time for each partition. Grade D, through the logs."""

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.replication.partition import Partition
from ledgerstone.server.effects import Flush
from ledgerstone.types import TopicPartition


@dataclass(slots=True)
class Flushes:
    _under_way: dict[TopicPartition, None] = field(default_factory=dict)

    def is_under_way(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._under_way

    def start(self, partition: Partition, up_to_offset: int) -> Flush | None:
        """None: one is under way, or everything below `up_to_offset` is durable already."""
        tp = partition.topic_partition
        if tp in self._under_way:
            return None
        plan = partition.log.plan_flush(up_to_offset)
        if plan is None:
            return None
        self._under_way[tp] = None
        return Flush(tp, partition.topic_id, plan)

    def ended(self, topic_partition: TopicPartition) -> None:
        self._under_way.pop(topic_partition, None)
