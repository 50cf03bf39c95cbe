"""A client's view of the cluster: brokers, topics, leaders. Pure; fed with Metadata responses.

Everything here may be out of date at any time. Being wrong costs a round trip, since the broker
says so; only the cluster decides.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ZERO_UUID
from ledgerstone.protocol.messages.metadata import (
    MetadataPartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ledgerstone.types import NO_LEADER_EPOCH, TopicPartition

NO_NODE: Final = -1


class Endpoint(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Mapping[int, PartitionInfo]  # in the order of their numbers


class KnownCluster:
    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = NO_NODE
        self.brokers: dict[int, Endpoint] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.topic_errors: dict[str, int] = {}  # of the topics in the last request
        self._learned_ms: dict[str, int] = {}
        # The newest that was seen of each topic, also of those to be looked up again: in the same
        # round other leaders are asked about them, and one that moved says nothing against those.
        self._newest: dict[str, TopicInfo] = {}
        self._names: dict[bytes, str] = {}  # of these, by id

    def learn(self, response: MetadataResponse, *, now_ms: int) -> None:
        if response.brokers:
            self.brokers = {b.node_id: Endpoint(b.host, b.port) for b in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        for topic in response.topics:
            if topic.name is not None:
                self._learn_topic(topic.name, topic, now_ms)

    def _learn_topic(self, name: str, topic: MetadataResponseTopic, now_ms: int) -> None:
        self.forget(name)
        if topic.error_code != ErrorCode.NONE:
            self.topic_errors[name] = topic.error_code
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._drop_newest(name)
            return
        self.topic_errors.pop(name, None)
        partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
        known = self._drop_newest(name)
        before = known.partitions if known and known.topic_id == topic.topic_id else {}
        self.topics[name] = self._newest[name] = TopicInfo(
            name=name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions={
                each.partition_index: _newer(before.get(each.partition_index), each)
                for each in partitions
            },
        )
        self._learned_ms[name] = now_ms
        if topic.topic_id != ZERO_UUID:
            self._names[topic.topic_id] = name

    def _drop_newest(self, name: str) -> TopicInfo | None:
        known = self._newest.pop(name, None)
        if known is not None:
            self._names.pop(known.topic_id, None)
        return known

    def forget(self, topic: str) -> None:
        """It is looked up again before leaders are chosen."""
        self.topics.pop(topic, None)
        self._learned_ms.pop(topic, None)

    def knows(self, topic: str, *, now_ms: int, max_age_ms: int) -> bool:
        learned_ms = self._learned_ms.get(topic)
        return learned_ms is not None and now_ms - learned_ms < max_age_ms

    def leader_of(self, partition: TopicPartition) -> int:
        """NO_NODE if there is no such partition, or it has no leader, or none is known."""
        topic = self.topics.get(partition.topic)
        info = None if topic is None else topic.partitions.get(partition.partition)
        return NO_NODE if info is None else info.leader_id

    def leader_epoch_of(self, partition: TopicPartition) -> int:
        """NO_LEADER_EPOCH where it is not known."""
        topic = self._newest.get(partition.topic)
        info = None if topic is None else topic.partitions.get(partition.partition)
        return NO_LEADER_EPOCH if info is None else info.leader_epoch

    def why_leaderless(self, partition: TopicPartition) -> int:
        """The error code that explains why `leader_of` is NO_NODE."""
        topic = self.topics.get(partition.topic)
        if topic is None:
            return self.topic_errors.get(partition.topic, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        info = topic.partitions.get(partition.partition)
        if info is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return info.error_code or ErrorCode.LEADER_NOT_AVAILABLE

    def topic_id(self, topic: str) -> bytes:
        known = self._newest.get(topic)
        return ZERO_UUID if known is None else known.topic_id

    def name_of(self, topic: str, topic_id: bytes) -> str | None:
        """The name in an answer that has either a name or an id."""
        return topic or self._names.get(topic_id)


def ask_about(topics: Iterable[str]) -> MetadataRequest:
    """Auto-creation is off: a lookup must not create the topic."""
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=False,
    )


def _newer(known: PartitionInfo | None, told: MetadataPartition) -> PartitionInfo:
    """A broker that is cut off tells of a leader that was replaced, which would answer without the
    records of its successor. As in Kafka's clients, an older epoch is not believed."""
    if known is not None and told.leader_epoch < known.leader_epoch:
        return known
    return _partition_info(told)


def _partition_info(partition: MetadataPartition) -> PartitionInfo:
    return PartitionInfo(
        partition=partition.partition_index,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        error_code=partition.error_code,
    )
