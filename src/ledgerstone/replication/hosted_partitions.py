"""The partitions this broker hosts: metadata on one side, logs on the other. Grade D.

The metadata image says what must be there; this module makes it so, one delta at a time. Every
method is idempotent in effect: a start replays the image as one big delta. What the disk refuses is
offline until the next start, and does not keep the rest of a delta from being applied: the metadata
is committed by then, and every other partition has to follow it.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from ledgerstone.errors import (
    InconsistentTopicId,
    LogStorageError,
    StorageError,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.delta import Delta, PartitionDelta
from ledgerstone.metadata.image import (
    ConfigResource,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ledgerstone.replication.partition import Partition
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.topic_config import resolve_topic
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)
_DISK_REFUSED: Final = (OSError, StorageError, InconsistentTopicId)


class HostedPartitions:
    """`broker_values` are the broker's own settings as text: the defaults of its topics."""

    def __init__(self, log_dir: LogDir, node_id: int, broker_values: Mapping[str, str]) -> None:
        self._log_dir = log_dir
        self._node_id = node_id
        self.broker_values = broker_values
        # Why each partition that should be here is not.
        self.offline: dict[TopicPartition, str] = {}
        self._partitions: dict[TopicPartition, Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic_partition: TopicPartition) -> Partition:
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self.offline:
            raise LogStorageError(f"{topic_partition}: {self.offline[topic_partition]}")
        raise UnknownTopicOrPartition(f"{topic_partition} is not hosted here")

    def find(self, topic_partition: TopicPartition) -> Partition | None:
        return self._partitions.get(topic_partition)

    def load(self, image: MetadataImage) -> None:
        """At start: opens what the directory holds and creates what is missing.

        A directory of a topic the metadata does not know is left closed and on disk: the topic may
        have been deleted, or the metadata may be the one that is wrong."""
        for log in self._log_dir.load(lambda tp: self._log_config(image, tp.topic)):
            if image.partition(*log.topic_partition) is None:
                self._log_dir.set_aside_stray(log.topic_partition)
        for topic in image.topics.values():
            for number, partition in topic.partitions.items():
                self._host(image, topic, number, partition)

    def apply(self, delta: Delta, image: MetadataImage) -> None:
        for topic in delta.topics_deleted:
            for number in topic.partitions:
                self._drop(TopicPartition(topic.name, number))
        for topic in delta.topics_created:
            for number, partition in topic.partitions.items():
                self._host(image, topic, number, partition)
        for change in (*delta.partitions_added, *delta.partitions_changed):
            self._change(image, change)
        for resource in delta.configs_changed:
            self._reconfigure(image, resource)

    def _change(self, image: MetadataImage, change: PartitionDelta) -> None:
        topic = image.topics[change.topic]
        hosted = self._partitions.get(TopicPartition(change.topic, change.partition))
        if hosted is None:
            self._host(image, topic, change.partition, change.after)
        else:
            _assume(hosted, change.after)

    def _host(
        self, image: MetadataImage, topic: TopicImage, number: int, state: PartitionImage
    ) -> None:
        topic_partition = TopicPartition(topic.name, number)
        if self._node_id not in state.replicas or topic_partition in self._partitions:
            return
        log = self._log_dir.logs.get(topic_partition)
        if log is None:
            config = self._log_config(image, topic.name)
            try:
                log = self._log_dir.create(topic_partition, config, topic_id=topic.topic_id)
            except _DISK_REFUSED as error:
                _LOG.error("partition offline partition=%s reason=%s", topic_partition, error)
                self.offline[topic_partition] = str(error)
                return
        partition = Partition(log=log, topic_id=topic.topic_id, node_id=self._node_id)
        partition.min_insync_replicas = self._min_insync(image, topic.name)
        self._partitions[topic_partition] = partition
        _assume(partition, state)

    def _drop(self, topic_partition: TopicPartition) -> None:
        self.offline.pop(topic_partition, None)
        if self._partitions.pop(topic_partition, None) is None:
            return
        try:
            self._log_dir.delete(topic_partition)
        except _DISK_REFUSED as error:
            # The next start finds a directory that the metadata does not know.
            _LOG.error("partition not deleted partition=%s reason=%s", topic_partition, error)

    def _reconfigure(self, image: MetadataImage, resource: ConfigResource) -> None:
        everything = resource.resource_type == ResourceType.BROKER
        for topic_partition, partition in self._partitions.items():
            if everything or topic_partition.topic == resource.name:
                topic = topic_partition.topic
                partition.log.reconfigure(self._log_config(image, topic))
                partition.min_insync_replicas = self._min_insync(image, topic)

    def _log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        return LogConfig.from_topic(image.topic_config(topic), self._defaults(image))

    def _min_insync(self, image: MetadataImage, topic: str) -> int:
        values = resolve_topic(image.topic_config(topic), self._defaults(image))
        minimum = values["min.insync.replicas"]
        assert isinstance(minimum, int)
        return minimum

    def _defaults(self, image: MetadataImage) -> Mapping[str, str]:
        return image.broker_values(self._node_id, self.broker_values)


def _assume(partition: Partition, state: PartitionImage) -> None:
    partition.assume(leader_id=state.leader, leader_epoch=state.leader_epoch, isr=state.isr)
