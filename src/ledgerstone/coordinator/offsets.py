"""Committed offsets by group, topic and partition. Pure. Changed by replayed records alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ledgerstone.types import NO_LEADER_EPOCH, NO_TIMESTAMP, TopicPartition


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    # Set by clients of OffsetCommit v2-4 that ask for a retention of their own.
    expire_timestamp_ms: int = NO_TIMESTAMP


Partitions = dict[int, CommittedOffset]
Topics = dict[str, Partitions]


@dataclass(slots=True)
class OffsetStore:
    """Invariant: no group without topics, no topic without partitions."""

    _groups: dict[str, Topics] = field(default_factory=dict)

    def put(
        self, group_id: str, topic_partition: TopicPartition, committed: CommittedOffset
    ) -> None:
        topic, partition = topic_partition
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def remove(self, group_id: str, topic_partition: TopicPartition) -> None:
        topic, partition = topic_partition
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is None:
            return
        if not partitions:
            del topics[topic]
        if not topics:
            del self._groups[group_id]

    def get(self, group_id: str, topic_partition: TopicPartition) -> CommittedOffset | None:
        return (
            self.topics_of(group_id).get(topic_partition.topic, {}).get(topic_partition.partition)
        )

    def topics_of(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self._groups.get(group_id, {})

    def offsets_of(self, group_id: str) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        for topic, partitions in self.topics_of(group_id).items():
            for partition, committed in partitions.items():
                yield TopicPartition(topic, partition), committed

    def count_of(self, group_id: str) -> int:
        return sum(map(len, self.topics_of(group_id).values()))

    def groups_with(self, topic: str) -> Iterator[tuple[str, Mapping[int, CommittedOffset]]]:
        for group_id, topics in self._groups.items():
            if topic in topics:
                yield group_id, topics[topic]

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def check_invariants(self) -> None:
        assert all(topics and all(topics.values()) for topics in self._groups.values())
