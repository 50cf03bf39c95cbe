"""What the members of one group were told, held against each other. Part of sim.

Only an answer to SyncGroup counts: by then the generation is committed, so every later coordinator
knows it. The number of a generation that was only joined may come again after a failover.
"""

from collections.abc import Callable, Collection

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition


@dataclass(slots=True, kw_only=True)
class ClusterGroup:
    """`end_of` is how far a partition can be read; `excused` may have lost records."""

    group: str
    places: list[TopicPartition]
    world: World
    excused: Collection[TopicPartition]
    end_of: Callable[[TopicPartition], int]
    # How far the group has come, whoever read it.
    read_to: dict[TopicPartition, int] = field(default_factory=dict)
    _leaders: dict[int, str] = field(default_factory=dict)
    _owners: dict[tuple[int, TopicPartition], str] = field(default_factory=dict)
    # When each generation was first known to be committed.
    _since_ms: dict[int, int] = field(default_factory=dict)
    # The furthest commit that was acknowledged, and what may still come late.
    _acked: dict[TopicPartition, int] = field(default_factory=dict)
    _unknown: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_lost(self) -> bool:
        """The log of the groups has lost its last copy: generations and offsets may come again."""
        return any(place.topic == CONSUMER_OFFSETS for place in self.excused)

    @property
    def is_caught_up(self) -> bool:
        return all(self.read_to.get(each, 0) >= self.end_of(each) for each in self.places)

    def synced(
        self, generation_id: int, leader: str, member_id: str, owned: list[TopicPartition]
    ) -> None:
        if self.is_lost:
            return
        known = self._leaders.setdefault(generation_id, leader)
        if known != leader:
            text = f"{self.group} generation {generation_id}: {known} and {leader}"
            raise Violation("OneLeaderAGeneration", text)
        for place in owned:
            owner = self._owners.setdefault((generation_id, place), member_id)
            if owner != member_id:
                text = f"{self.group} generation {generation_id} {place}: {owner} and {member_id}"
                raise Violation("OneOwnerAGeneration", text)
        newest = max(self._since_ms, default=0)
        if generation_id > newest:
            if newest:
                self.world.mark("a group rebalanced")
            self._since_ms[generation_id] = self.world.now_ms

    def tried(self, place: TopicPartition, offset: int) -> None:
        """A commit that may take effect at any time from now on."""
        self._unknown[place] = min(offset, self._unknown.get(place, offset))

    def committed(
        self, generation_id: int, place: TopicPartition, offset: int, began_ms: int
    ) -> None:
        if self.is_lost or place in self.excused:
            return
        for newer, since_ms in self._since_ms.items():
            if newer > generation_id and since_ms < began_ms:
                text = f"{self.group} took a commit of generation {generation_id} after {newer}"
                raise Violation("OldGenerationsCommitNothing", text)
        before = self._acked.get(place, 0)
        if offset < before and self._unknown.get(place, before) > offset:
            text = f"{self.group} {place}: {offset} was committed after {before}"
            raise Violation("GroupOffsetsGoOn", text)
        self._acked[place] = max(offset, before)
