"""Committed offsets by group, topic and partition. Pure. Changed by replayed records alone."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ledgerstone.coordinator.memory import (
    GROUP_BYTES,
    OFFSET_BYTES,
    TOPIC_BYTES,
    GroupMemory,
    text_bytes,
)
from ledgerstone.dataclasses import dataclass, field
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
    """Invariants: no group without topics, no topic without partitions. `held_bytes` is what it has
    counted in the memory that all groups share."""

    memory: GroupMemory
    held_bytes: int = 0
    _groups: dict[str, Topics] = field(default_factory=dict)

    def put(
        self, group_id: str, topic_partition: TopicPartition, committed: CommittedOffset
    ) -> None:
        topic, partition = topic_partition
        growth = Growth(self, group_id)
        growth.add(topic_partition, committed)
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed
        self._count(growth.more)

    def remove(self, group_id: str, topic_partition: TopicPartition) -> None:
        topic, partition = topic_partition
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        committed = partitions.pop(partition, None)
        if committed is None:
            return
        self._count(-offset_bytes(committed))
        if not partitions:
            del topics[topic]
            self._count(-topic_bytes(topic))
        if not topics:
            del self._groups[group_id]
            self._count(-group_bytes(group_id))

    def release(self) -> None:
        """The store is of no use any more: nothing of it is counted."""
        self._count(-self.held_bytes)

    def _count(self, change: int) -> None:
        self.held_bytes += change
        self.memory.count_offsets(change)

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
        held = sum(map(group_bytes, self._groups))
        for topics in self._groups.values():
            held += sum(map(topic_bytes, topics))
            for partitions in topics.values():
                held += sum(map(offset_bytes, partitions.values()))
        assert self.held_bytes == held, (self.held_bytes, held)


class Growth:
    """By how much a store grows with offsets of one group, before it does."""

    def __init__(self, store: OffsetStore, group_id: str) -> None:
        self._store = store
        self._group_id = group_id
        self._topics = store.topics_of(group_id)
        self._new_topics: dict[str, None] = {}
        self.more = 0

    def add(self, topic_partition: TopicPartition, committed: CommittedOffset) -> None:
        self.more += self._with(topic_partition, committed)
        if topic_partition.topic not in self._topics:
            self._new_topics[topic_partition.topic] = None

    def has_room_for(self, topic_partition: TopicPartition, committed: CommittedOffset) -> bool:
        """Counts the offset, if there is room for it beside those before it."""
        extra = self._with(topic_partition, committed)
        # What only replaces an offset has a place, however full it is.
        if extra > 0 and not self._store.memory.has_room_for_offsets(self.more + extra):
            return False
        self.add(topic_partition, committed)
        return True

    def _with(self, topic_partition: TopicPartition, committed: CommittedOffset) -> int:
        topic, partition = topic_partition
        size = offset_bytes(committed)
        partitions = self._topics.get(topic)
        if partitions is not None:
            former = partitions.get(partition)
            return size - (0 if former is None else offset_bytes(former))
        if topic not in self._new_topics:
            size += topic_bytes(topic)
        if not self._topics and not self._new_topics:
            size += group_bytes(self._group_id)
        return size


def offset_bytes(committed: CommittedOffset) -> int:
    return OFFSET_BYTES + text_bytes(committed.metadata)


def topic_bytes(topic: str) -> int:
    return TOPIC_BYTES + text_bytes(topic)


def group_bytes(group_id: str) -> int:
    return GROUP_BYTES + text_bytes(group_id)
