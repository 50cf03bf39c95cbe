"""Offsets committed inside transactions that are not over yet. Pure.

A transactional batch in the offsets topic says nothing until its producer's marker: COMMIT makes
its offsets committed, ABORT drops them. Meanwhile the offset is unstable. An offset committed later
in the log wins, whichever transaction ends first.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ledgerstone.coordinator.memory import GroupMemory
from ledgerstone.coordinator.offsets import (
    CommittedOffset,
    group_bytes,
    offset_bytes,
    topic_bytes,
)
from ledgerstone.types import TopicPartition


class _Place(NamedTuple):
    group_id: str
    topic_partition: TopicPartition


class _Pending(NamedTuple):
    """`committed` is None once a later commit has won; the place is unstable until the marker."""

    order: int
    committed: CommittedOffset | None
    size: int


class PendingOffsets:
    """Invariant: `_by_producer` and `_by_place` name the same pairs. Counted in the memory that all
    groups share, for every pair by itself."""

    def __init__(self, memory: GroupMemory) -> None:
        self._memory = memory
        self._held_bytes = 0
        self._order = 0
        self._by_place: dict[_Place, dict[int, _Pending]] = {}
        self._by_producer: dict[int, dict[_Place, None]] = {}
        # How many places of a group are open, for who may not delete it meanwhile.
        self._open_groups: dict[str, int] = {}

    def put(
        self,
        producer_id: int,
        group_id: str,
        topic_partition: TopicPartition,
        committed: CommittedOffset,
    ) -> None:
        place = _Place(group_id, topic_partition)
        if place not in self._by_place:
            self._by_place[place] = {}
            self._open_groups[group_id] = self._open_groups.get(group_id, 0) + 1
        self._order += 1
        size = _pending_bytes(place, committed)
        self._count(size - self.size_of(producer_id, place))
        self._by_place[place][producer_id] = _Pending(self._order, committed, size)
        self._by_producer.setdefault(producer_id, {})[place] = None

    def size_of(self, producer_id: int, place: _Place) -> int:
        """What is counted for the pair; 0 if there is none."""
        pending = self._by_place.get(place, {}).get(producer_id)
        return 0 if pending is None else pending.size

    def has_room_for(self, more: int) -> bool:
        return self._memory.has_room_for_offsets(more)

    def superseded(self, group_id: str, topic_partition: TopicPartition) -> None:
        """An offset was committed outside of transactions: all that are pending came before it."""
        self._void(_Place(group_id, topic_partition), before=self._order + 1)

    def forget(self, group_id: str, topic_partition: TopicPartition) -> None:
        """The offset was deleted, and with it what is pending."""
        place = _Place(group_id, topic_partition)
        for producer_id in list(self._by_place.get(place, ())):
            self._close(producer_id, place)

    def end(
        self, producer_id: int, *, commit: bool
    ) -> list[tuple[str, TopicPartition, CommittedOffset]]:
        """A marker: the offsets that are committed from now on. None where nothing was pending."""
        won = []
        for place in list(self._by_producer.get(producer_id, ())):
            pending = self._close(producer_id, place)
            if commit and pending.committed is not None:
                self._void(place, before=pending.order)
                won.append((*place, pending.committed))
        return won

    def is_open(self, group_id: str, topic_partition: TopicPartition) -> bool:
        return (group_id, topic_partition) in self._by_place

    def partitions_of(self, group_id: str) -> list[TopicPartition]:
        if group_id not in self._open_groups:
            return []
        return [place.topic_partition for place in self._by_place if place.group_id == group_id]

    def of_topic(self, topic: str) -> Iterator[tuple[str, TopicPartition]]:
        return (place for place in self._by_place if place.topic_partition.topic == topic)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._open_groups

    def release(self) -> None:
        """The shard is of no use any more: nothing of it is counted."""
        self._count(-self._held_bytes)

    def _void(self, place: _Place, *, before: int) -> None:
        pending = self._by_place.get(place, {})
        for producer_id, each in pending.items():
            if each.order < before:
                pending[producer_id] = each._replace(committed=None)

    def _close(self, producer_id: int, place: _Place) -> _Pending:
        places, pending = self._by_producer[producer_id], self._by_place[place]
        del places[place]
        if not places:
            del self._by_producer[producer_id]
        closed = pending.pop(producer_id)
        self._count(-closed.size)
        if not pending:
            del self._by_place[place]
            self._open_groups[place.group_id] -= 1
            if not self._open_groups[place.group_id]:
                del self._open_groups[place.group_id]
        return closed

    def _count(self, change: int) -> None:
        self._held_bytes += change
        self._memory.count_offsets(change)

    def check_invariants(self) -> None:
        pairs = {(place, each) for place, found in self._by_place.items() for each in found}
        assert pairs == {
            (place, each) for each, found in self._by_producer.items() for place in found
        }
        assert all(self._by_place.values())
        assert all(self._by_producer.values())
        sizes = [each.size for found in self._by_place.values() for each in found.values()]
        assert self._held_bytes == sum(sizes)
        groups = [place.group_id for place in self._by_place]
        assert self._open_groups == {each: groups.count(each) for each in groups}


class PendingGrowth:
    """By how much the pending offsets of a producer grow, before they do."""

    def __init__(self, pending: PendingOffsets, producer_id: int, group_id: str) -> None:
        self._pending = pending
        self._producer_id = producer_id
        self._group_id = group_id
        self._more = 0

    def has_room_for(self, topic_partition: TopicPartition, committed: CommittedOffset) -> bool:
        """Counts the offset, if there is room for it beside those before it."""
        place = _Place(self._group_id, topic_partition)
        former = self._pending.size_of(self._producer_id, place)
        extra = _pending_bytes(place, committed) - former
        # What only replaces an offset has a place, however full it is.
        if extra > 0 and not self._pending.has_room_for(self._more + extra):
            return False
        self._more += extra
        return True


def _pending_bytes(place: _Place, committed: CommittedOffset) -> int:
    names = topic_bytes(place.topic_partition.topic) + group_bytes(place.group_id)
    return offset_bytes(committed) + names
