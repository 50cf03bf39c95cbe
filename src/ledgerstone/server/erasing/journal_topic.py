"""The topic of the journal of erasures: made on demand, with settings of its own. Grade D."""

import logging
from collections.abc import Callable
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.erasure.journal import ERASURES_TOPIC
from ledgerstone.errors import LogStorageError, NotController
from ledgerstone.metadata.image import ConfigResource, MetadataImage, ResourceType
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import ConfigRecord
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.server.erasing.needs import AsksController, HostsTopics
from ledgerstone.server.guarded_topic import GuardedTopic
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)
JOURNAL: Final = TopicPartition(ERASURES_TOPIC, 0)
_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "max.message.bytes": str(16 << 20),
    "segment.bytes": str(100 << 20),
    # Sealed keys go when they are not needed, also those of erasures that were cancelled.
    "max.compaction.lag.ms": "3600000",
    # A sealed key is not kept for readers of a file that is no longer part of the log.
    "file.delete.delay.ms": "0",
}


@dataclass(frozen=True, slots=True)
class JournalTopic:
    image: Callable[[], MetadataImage]  # the newest
    partitions: HostedPartitions
    controller: AsksController
    topics: HostsTopics
    replication_factor: int

    @property
    def _wanted(self) -> GuardedTopic:
        return GuardedTopic(
            name=ERASURES_TOPIC, configs=_CONFIGS, replication_factor=self.replication_factor
        )

    @property
    def exists(self) -> bool:
        return ERASURES_TOPIC in self.image().topics

    @property
    def is_replicated(self) -> bool:
        state = self.image().partition(*JOURNAL)
        return state is not None and len(state.replicas) > 1

    def partition(self) -> Partition:
        """Of a topic that exists."""
        return self.partitions.get(JOURNAL)

    def hosted(self) -> Partition | None:
        return self.partitions.find(JOURNAL)

    def ensure_partition(self) -> Partition:
        """Makes the topic when the first erasure is asked for."""
        if not self.exists:
            self._ask_for_topic()
        self.topics.host_topic(ERASURES_TOPIC)
        return self.partition()

    def _ask_for_topic(self) -> None:
        answers: list[str | None] = []
        self.ask_for_topic(answers.append)
        for why in answers:
            if why is not None:
                raise LogStorageError(why)

    def ask_for_topic(self, on_answer: Callable[[str | None], None]) -> None:
        """Told why it is not there; in a later turn where the controller is another node."""
        self._wanted.ask_for(self.controller, self.image(), on_answer)

    def restore_configs(self) -> None:
        """No client may weaken them; older brokers let them, and what is on disk may be older."""
        resource = ConfigResource(ResourceType.TOPIC, ERASURES_TOPIC)
        present = self.image().config_of(resource)
        configs = self._wanted.all_configs
        weakened = [name for name, text in configs.items() if present.get(name) != text]
        if not weakened:
            return
        _LOG.error(
            "journal of erasures had other settings, they are set back topic=%s settings=%s",
            ERASURES_TOPIC, ",".join(f"{name}={present.get(name)}" for name in weakened),
        )  # fmt: skip
        records: list[MetadataRecord] = [
            ConfigRecord(
                resource_type=ResourceType.TOPIC,
                resource_name=ERASURES_TOPIC,
                name=name,
                value=configs[name],
            )
            for name in weakened
        ]
        try:
            self.controller.write(records)
        except NotController as error:
            # Done when a node that is both controller and leader of the journal starts.
            _LOG.warning("settings of the journal of erasures stay as they are reason=%s", error)
