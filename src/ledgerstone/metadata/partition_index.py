"""Which partitions an event touches, found without looking at all of them. Pure.

Beside the image, not in it: only the active controller asks, so only it pays. The index is counted
once from the image a new controller starts with, and follows the deltas from then on. The argument
is in README.md.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TypeVar

from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import NO_LEADER, MetadataImage, PartitionImage, is_reserved

Key = tuple[str, int]  # A topic's name and the number of one of its partitions.
G = TypeVar("G", int, bytes)


class PartitionIndex:
    """Invariant: says of `image` what a full count would say. Its sets have no order: records made
    from them are sorted first, so that every controller writes the same ones."""

    __slots__ = (
        "by_directory",
        "image",
        "imbalanced",
        "in_elr",
        "in_isr",
        "leaderless",
        "leading",
        "reassigning",
    )

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.in_isr: dict[int, set[Key]] = {}
        self.in_elr: dict[int, set[Key]] = {}
        self.leading: dict[int, int] = {}  # How many partitions a broker leads.
        self.by_directory: dict[bytes, set[Key]] = {}
        self.leaderless: set[Key] = set()
        self.imbalanced: set[Key] = set()  # Led by another replica than the preferred one, or none.
        self.reassigning: set[Key] = set()
        self._count()

    def follow(self, delta: Delta, image: MetadataImage) -> None:
        """`image` is what the delta made of the image this index was of."""
        for topic in delta.topics_deleted:
            for number, partition in topic.partitions.items():
                self._remove((topic.name, number), partition)
        for topic in delta.topics_created:
            for number, partition in topic.partitions.items():
                self._add((topic.name, number), partition)
        for added in delta.partitions_added:
            self._add((added.topic, added.partition), added.after)
        for changed in delta.partitions_changed:
            assert changed.before is not None
            self._change((changed.topic, changed.partition), changed.before, changed.after)
        self.image = image

    def check_invariants(self) -> None:
        """For tests and simulations: the same as a full count."""
        counted = PartitionIndex(self.image)
        for name in self.__slots__:
            assert getattr(self, name) == getattr(counted, name), name

    def _count(self) -> None:
        """As `_add` for every partition, written out: a new leader waits for it."""
        in_isr: defaultdict[int, set[Key]] = defaultdict(set)
        by_directory: defaultdict[bytes, set[Key]] = defaultdict(set)
        leading: Counter[int] = Counter()
        for name, topic in self.image.topics.items():
            for number, partition in topic.partitions.items():
                key = (name, number)
                for broker_id in partition.isr:
                    in_isr[broker_id].add(key)
                for directory in partition.directories:
                    by_directory[directory].add(key)
                leading[partition.leader] += 1
                if partition.leader != partition.replicas[0]:
                    self.imbalanced.add(key)
                    if partition.leader == NO_LEADER:
                        self.leaderless.add(key)
                if partition.eligible_leader_replicas:
                    _put(self.in_elr, partition.eligible_leader_replicas, key)
                if partition.adding_replicas or partition.removing_replicas:
                    self.reassigning.add(key)
        del leading[NO_LEADER]
        self.in_isr = dict(in_isr)
        self.leading = dict(leading)
        self.by_directory = {
            directory: keys
            for directory, keys in by_directory.items()
            if not is_reserved(directory)
        }

    def _add(self, key: Key, partition: PartitionImage) -> None:
        _put(self.in_isr, partition.isr, key)
        if partition.eligible_leader_replicas:
            _put(self.in_elr, partition.eligible_leader_replicas, key)
        _put(self.by_directory, _assigned(partition), key)
        self._lead(partition.leader, 1, key)
        self._mark(key, partition)

    def _remove(self, key: Key, partition: PartitionImage) -> None:
        _take(self.in_isr, partition.isr, key)
        _take(self.in_elr, partition.eligible_leader_replicas, key)
        _take(self.by_directory, _assigned(partition), key)
        self._lead(partition.leader, -1, key)
        self.leaderless.discard(key)
        self.imbalanced.discard(key)
        self.reassigning.discard(key)

    def _change(self, key: Key, before: PartitionImage, after: PartitionImage) -> None:
        """Most changes move a leader or a member of the ISR and nothing else."""
        if before.isr != after.isr:
            _take(self.in_isr, before.isr, key)
            _put(self.in_isr, after.isr, key)
        if before.eligible_leader_replicas != after.eligible_leader_replicas:
            _take(self.in_elr, before.eligible_leader_replicas, key)
            _put(self.in_elr, after.eligible_leader_replicas, key)
        if before.directories != after.directories:
            _take(self.by_directory, _assigned(before), key)
            _put(self.by_directory, _assigned(after), key)
        if before.leader != after.leader:
            self._lead(before.leader, -1, key)
            self._lead(after.leader, 1, key)
        self._mark(key, after)

    def _lead(self, leader: int, change: int, key: Key) -> None:
        if leader == NO_LEADER:
            (self.leaderless.add if change > 0 else self.leaderless.discard)(key)
            return
        count = self.leading.get(leader, 0) + change
        if count:
            self.leading[leader] = count
        else:
            del self.leading[leader]

    def _mark(self, key: Key, partition: PartitionImage) -> None:
        if partition.leader == partition.replicas[0]:
            self.imbalanced.discard(key)
        else:
            self.imbalanced.add(key)
        if partition.is_reassigning:
            self.reassigning.add(key)
        else:
            self.reassigning.discard(key)


def _assigned(partition: PartitionImage) -> list[bytes]:
    return [each for each in partition.directories if not is_reserved(each)]


def _put(groups: dict[G, set[Key]], names: Iterable[G], key: Key) -> None:
    for name in names:
        keys = groups.get(name)
        if keys is None:
            groups[name] = {key}
        else:
            keys.add(key)


def _take(groups: dict[G, set[Key]], names: Iterable[G], key: Key) -> None:
    for name in names:
        keys = groups.get(name)
        if keys is None:
            # A partition may name a directory twice: brokers say what they like.
            continue
        keys.discard(key)
        if not keys:
            del groups[name]
