"""What cleaning needs of the broker's other parts. Grade D, through the partitions."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from ledgerstone.cleaner.open_txn import TxnOwner
from ledgerstone.replication.partition import Partition
from ledgerstone.server.effects import Flush
from ledgerstone.types import TopicPartition


class HostedLogs(Protocol):
    """The partitions hosted here."""

    @property
    def offline(self) -> Mapping[TopicPartition, str]: ...

    def __iter__(self) -> Iterator[Partition]: ...

    def get(self, topic_partition: TopicPartition) -> Partition: ...

    def find(self, topic_partition: TopicPartition) -> Partition | None: ...

    def take_removed(self) -> list[TopicPartition]:
        """Replicas that were assigned to other brokers since the last call."""
        ...


class TxnOwners(Protocol):
    """The transaction coordinators hosted here."""

    def owner_of(self, producer_id: int) -> TxnOwner | None:
        """Of the producer's open transaction; None: it has none that is known here."""
        ...


class DiskTrouble(Protocol):
    """Reports what the disk refuses."""

    def log_failed(
        self, topic_partition: TopicPartition | None, error: Exception, now_ms: int
    ) -> None: ...


class SharedFlushes(Protocol):
    """Flushes under way, for all agents: one at a time for each partition."""

    def is_under_way(self, topic_partition: TopicPartition) -> bool: ...

    def start(self, partition: Partition, up_to_offset: int) -> Flush | None: ...


class Retains(Protocol):
    """Deletes old segments of a partition that no pass reads any more."""

    def apply(self, partition: Partition) -> None: ...
