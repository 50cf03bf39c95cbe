"""The group shards hosted here, and what may be read of them by anyone. Grade D.

`agent` opens, asks and closes shards. Offsets seen here are committed ones.
"""

from collections.abc import Callable, Mapping

from ledgerstone.coordinator.group_state import GroupPhase
from ledgerstone.coordinator.group_table import GroupTable
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.server.groups.hosted_shard import HostedShard


class HostedShards:
    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        # Of partitions led here; the others have their coordinator elsewhere, or none.
        self.by_number: dict[int, HostedShard] = {}

    def hosted(self) -> list[int]:
        """Also those that load. Empty before the first group."""
        return sorted(self.by_number)

    def loaded(self) -> list[int]:
        """Empty before the first group: looking does not bring the offsets topic into being."""
        return sorted(number for number, each in self.by_number.items() if each.is_loaded)

    def tables(self) -> list[GroupTable]:
        """The groups and offsets of every shard that is loaded."""
        return [self.by_number[number].shard.table for number in self.loaded()]

    def count_by_state(self) -> dict[GroupPhase, int]:
        """Every state, also those no group is in."""
        counts = dict.fromkeys(GroupPhase, 0)
        for table in self.tables():
            for group in table.groups.values():
                counts[group.state] += 1
        return counts

    def count_offsets(self) -> int:
        tables = self.tables()
        return sum(table.offsets.count_of(each) for table in tables for each in table.groups)

    def committed_on(self, topic: str) -> dict[str, Mapping[int, CommittedOffset]]:
        """What each group has committed for the topic, by partition; others are not in it."""
        found: dict[str, Mapping[int, CommittedOffset]] = {}
        for table in self.tables():
            found.update(table.offsets.groups_with(topic))
        return found

    def are_loaded(self) -> bool:
        """Whether every group that ever committed something is known."""
        topic = self._image().topics.get(CONSUMER_OFFSETS)
        return topic is None or len(self.loaded()) == len(topic.partitions)

    def check_invariants(self) -> None:
        for hosted in self.by_number.values():
            assert hosted.partition.is_leader, hosted.partition.topic_partition
            if hosted.is_loaded:
                hosted.shard.check_invariants()
