"""What groups need of the broker's other parts. Grade D, through the partitions."""

from typing import Protocol

from ledgerstone.metadata.image import TopicImage
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.replication.partition import Partition
from ledgerstone.server.controller_link import OnAnswer
from ledgerstone.server.request import Request
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition


class HostedLogs(Protocol):
    """The partitions hosted here."""

    def find(self, topic_partition: TopicPartition) -> Partition | None: ...

    def is_complete(self, topic: TopicImage) -> bool:
        """Whether every partition of the topic that belongs here has been made."""
        ...


class AsksController(Protocol):
    """Changes metadata, here to create the offsets topic."""

    def ask(self, request: ApiMessage, on_answer: OnAnswer) -> None: ...


class CountsTombstones(Protocol):
    """Cleaning, which has to know when a log gets tombstones."""

    def appended(self, log: PartitionLog, tombstone_count: int) -> None: ...


class WatchesGroups(CountsTombstones, Protocol):
    """Cleaning, which may hold tombstones back until a group has read them."""

    def offset_committed(self, tp: TopicPartition) -> None: ...


class DiskTrouble(Protocol):
    """Reports what the disk refuses."""

    def log_failed(
        self, topic_partition: TopicPartition | None, error: Exception, now_ms: int
    ) -> None: ...


class Answers(Protocol):
    """Answers requests whose handlers returned `Later`."""

    def answer(self, request: Request, response: ApiMessage) -> None: ...


class Appends(Protocol):
    """Learns of every append that no handler made."""

    def appended(self, topic_partition: TopicPartition, size: int = 0) -> None:
        """Retries requests parked on the partition, and counts what came in."""
        ...


class HostsTopics(Protocol):
    def host_topic(self, topic: str) -> None:
        """Makes the missing partitions of a topic now."""
        ...
