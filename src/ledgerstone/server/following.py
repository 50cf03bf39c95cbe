"""What a broker does when the committed metadata or the lead of a partition has changed. Grade D.

Order matters: the image first, so that answers name the new leader; then logs and roles; then those
who act on leadership; then those who act on topics and settings. Whatever fails, the rest follows:
the metadata is committed by then.
"""

from typing import TYPE_CHECKING

from ledgerstone.metadata.replay import Applied
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS, ERASURES
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker


class Following:
    """The broker's subscription to the metadata."""

    __slots__ = ("_broker",)

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def metadata_refused(self, error: Exception) -> None:
        self._broker.log_failed(self._broker.metadata_log.log.topic_partition, error)

    def metadata_committed(self, applied: Applied) -> None:
        """Records are durable, and now true: image, hosted partitions, what waited for them."""
        broker = self._broker
        broker.disk.accepted(str(broker.metadata_log.log.topic_partition))
        broker.image, delta = applied
        broker.partitions.apply(delta, broker.image)
        for topic in delta.topics_deleted:
            broker.near_tombstones.forget(topic.name)
            broker.counters.forget(topic.name)
            for number in topic.partitions:
                broker.grew(TopicPartition(topic.name, number))
        self.leadership()
        for agent in broker.agents.all:
            broker.act(agent.metadata_changed(delta))

    def leadership(self) -> None:
        """Leaderships were gained or lost: parked requests are tried again, whose answer may be
        NOT_LEADER_OR_FOLLOWER now; group shards and the journal of erasures load or resign."""
        broker = self._broker
        for event in broker.partitions.take_events():
            broker.grew(event.topic_partition)
            if event.topic_partition.topic == CONSUMER_OFFSETS:
                broker.groups.leadership_changed(event)
            elif event.topic_partition.topic == ERASURES:
                broker.erasing.leadership_changed(broker, event)

    def high_watermark_moved(self, topic_partition: TopicPartition) -> None:
        """A follower has fetched: requests and decisions that waited for it may be answered."""
        broker = self._broker
        broker.grew(topic_partition)
        if topic_partition.topic == CONSUMER_OFFSETS:
            broker.groups.high_watermark_moved(topic_partition.partition)
        elif topic_partition.topic == ERASURES:
            broker.erasing.journal_committed(broker)

    def work_off(self) -> None:
        """One slice of partitions that are still to be made or removed."""
        for partition in self._broker.partitions.work_off():
            self._broker.cleaning.hosted(partition)
        self.leadership()

    def host_topic(self, topic: str) -> None:
        """Makes what is missing of a topic now, for callers that cannot wait."""
        for partition in self._broker.partitions.work_off_topic(topic):
            self._broker.cleaning.hosted(partition)
        self.leadership()
