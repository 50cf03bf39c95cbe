"""What housekeeping needs of the broker's other parts. Grade D, through the partitions."""

from collections.abc import Iterator
from typing import Protocol

from ledgerstone.replication.partition import Partition
from ledgerstone.types import TopicPartition


class HostedLogs(Protocol):
    """The partitions hosted here."""

    def __iter__(self) -> Iterator[Partition]: ...

    def find(self, topic_partition: TopicPartition) -> Partition | None: ...


class Passes(Protocol):
    """Cleaning passes at work."""

    def is_busy(self, tp: TopicPartition) -> bool:
        """Whether a pass reads the partition's segments: they must not be deleted under it."""
        ...


class SettlesMissedDeletes(Protocol):
    """Groups that may have missed deletes."""

    def forget_settled(self, partition: Partition) -> None:
        """Drops groups that are gone, or that went back to where the log begins."""
        ...


class StraySearch(Protocol):
    """Searches for tombstones in the wrong partition."""

    def search_if_due(self) -> None: ...
