"""What erasures need of the broker's other parts. Grade D, through the partitions."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.server.controller_link import OnAnswer
from ledgerstone.types import TopicPartition

# By group, then by partition.
Committed = Mapping[str, Mapping[int, CommittedOffset]]


class GroupOffsets(Protocol):
    """What groups have committed."""

    def committed_on(self, topic: str) -> Committed:
        """Groups without a commit in the topic are not in it."""
        ...

    def are_loaded(self) -> bool:
        """Whether every group that ever committed something is known."""
        ...


class OwnOffsets(GroupOffsets, Protocol):
    """Of the groups whose coordinator is this broker."""

    def loaded(self) -> list[int]:
        """Partitions of the offsets topic whose groups are known here."""
        ...


class EndsTransactions(Protocol):
    """The transaction coordinators hosted here."""

    def abort(self, producer_id: int) -> None:
        """Aborts the open transaction of a producer, if it has one, and fences the producer."""
        ...


class AsksController(Protocol):
    """Changes metadata, here for the journal's topic."""

    def ask(self, request: ApiMessage, on_answer: OnAnswer, *, by_broker: bool = False) -> None: ...

    def write(self, records: Sequence[MetadataRecord]) -> None: ...


class Appends(Protocol):
    """Learns of every append that no handler made."""

    def appended(self, topic_partition: TopicPartition, size: int = 0) -> None:
        """Retries requests parked on the partition, and counts what came in."""
        ...


class HostsTopics(Protocol):
    def host_topic(self, topic: str) -> None:
        """Makes the missing partitions of a topic now."""
        ...


class UnlinksSoon(Protocol):
    def unlink_soon(self) -> None:
        """Unlinks files that are due with the next tick."""
        ...
