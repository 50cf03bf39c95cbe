"""The partitions of an image as decisions see them: with their settings, the brokers that may lead
them, and an index of which ones an event touches. Pure."""

from collections.abc import Mapping
from typing import Final

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.change_record import Election, PartitionTarget, Rules, change_record
from ledgerstone.metadata.features import (
    DIRECTORIES_FROM,
    ELR_FEATURE,
    ISR_SHRINK_KEEPS_EPOCH_FROM,
    METADATA_VERSION,
    METADATA_VERSION_FEATURE,
)
from ledgerstone.metadata.image import UNASSIGNED, MetadataImage, PartitionImage
from ledgerstone.metadata.partition_index import Key, PartitionIndex
from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


class Partitions:
    """A view of one image, for one decision. Without an index it counts one when it needs it."""

    __slots__ = ("_defaults", "_index", "_level", "elr", "image")

    def __init__(
        self, image: MetadataImage, config: BrokerConfig, index: PartitionIndex | None = None
    ) -> None:
        assert index is None or index.image is image
        self.image = image
        self.elr = image.features.get(ELR_FEATURE, 0) > 0
        self._level = image.features.get(METADATA_VERSION_FEATURE, METADATA_VERSION)
        self._defaults = image.broker_values(config.node_id, config.raw)
        self._index = index

    @property
    def index(self) -> PartitionIndex:
        if self._index is None:
            self._index = PartitionIndex(self.image)
        return self._index

    def in_isr(self, broker_id: int) -> list[Key]:
        return sorted(self.index.in_isr.get(broker_id, ()))

    def in_elr(self, broker_id: int) -> list[Key]:
        return sorted(self.index.in_elr.get(broker_id, ()))

    def leads_something(self, broker_id: int) -> bool:
        return broker_id in self.index.leading

    def __getitem__(self, key: Key) -> PartitionImage:
        name, number = key
        return self.image.topics[name].partitions[number]

    def is_unclean_allowed(self, topic: str) -> bool:
        return self._setting(topic, UNCLEAN_ELECTION, "false").strip().lower() == "true"

    def min_isr(self, topic: str) -> int:
        """The effective one: a topic with fewer replicas is served by those it has."""
        configured = int(self._setting(topic, MIN_ISR, "1"))
        return min(configured, self.image.topics[topic].replication_factor)

    def _setting(self, topic: str, name: str, default: str) -> str:
        own: Mapping[str, str] = self.image.topic_config(topic)
        return own.get(name) or self._defaults.get(name, default)

    def change(
        self,
        key: Key,
        target: PartitionTarget,
        *,
        election: Election | None = None,
        without: int | None = None,
        including: int | None = None,
    ) -> PartitionChangeRecord | None:
        """`without` may not lead from now on, whatever the image says of it; `including` may. What
        the topic allows decides about unclean elections, unless the election is given."""
        name, number = key
        topic = self.image.topics[name]
        partition = topic.partitions[number]
        if election is None:
            election = Election.UNCLEAN if self.is_unclean_allowed(name) else Election.ONLINE

        def is_acceptable(broker_id: int) -> bool:
            broker = self.image.brokers.get(broker_id)
            if broker is None or broker_id == without:
                return False
            if not broker.is_active and broker_id != including:
                return False
            is_new = broker_id not in partition.replicas
            return is_new or broker.has_online(partition.directory_of(broker_id))

        rules = Rules(
            is_acceptable=is_acceptable,
            default_directory=self.default_directory,
            min_isr=self.min_isr(name),
            elr=self.elr,
            has_directories=self._level >= DIRECTORIES_FROM,
            bumps_on_shrink=self._level < ISR_SHRINK_KEEPS_EPOCH_FROM,
            election=election,
        )
        return change_record(topic.topic_id, number, partition, target, rules)

    def default_directory(self, broker_id: int) -> bytes:
        broker = self.image.brokers.get(broker_id)
        return UNASSIGNED if broker is None else broker.default_directory
