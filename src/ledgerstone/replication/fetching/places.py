"""Where each followed partition stands: ready, delayed, or asking for offsets. Pure.

Nothing here looks at all partitions, except where a throttle is active: a broker follows thousands,
and fetches some times a second.
"""

from collections.abc import Iterator

from ledgerstone.replication.fetch_session import PartitionKey
from ledgerstone.replication.fetching.followed import FetchStage, FollowedPartition, HoldsBack
from ledgerstone.types import TopicPartition


class FetchPlaces:
    """Invariant: a partition is in one of `ready`, `delayed` and `asking`; `held` are ready."""

    def __init__(self) -> None:
        self._by_key: dict[PartitionKey, FollowedPartition] = {}
        self._keys: dict[TopicPartition, PartitionKey] = {}
        # In the order in which a full request names them.
        self.ready: dict[PartitionKey, FollowedPartition] = {}
        self.asking: dict[PartitionKey, FollowedPartition] = {}
        # Ready, but left out of requests by the throttle.
        self.held: dict[PartitionKey, None] = {}
        # Until when, by the length of the pause: those of one length end in the order they began.
        self._delayed: dict[int, dict[PartitionKey, int]] = {}
        # Partitions of which the leader may have been told something else.
        self._changed: dict[PartitionKey, None] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter(self._by_key.values())

    @property
    def has_wishes(self) -> bool:
        """Whether a Fetch would name anything."""
        return len(self.ready) > len(self.held)

    @property
    def delayed_until_ms(self) -> int | None:
        due = [next(iter(each.values())) for each in self._delayed.values() if each]
        return min(due, default=None)

    def add(self, followed: FollowedPartition) -> None:
        """At the end of the line."""
        self._by_key[followed.key] = followed
        self._keys[followed.topic_partition] = followed.key
        self.make_ready(followed)

    def remove(self, topic_partition: TopicPartition) -> None:
        key = self._keys.pop(topic_partition, None)
        if key is not None:
            del self._by_key[key]
            self._leave(key)

    def clear(self) -> None:
        for topic_partition in list(self._keys):
            self.remove(topic_partition)

    def touch(self, topic_partition: TopicPartition) -> None:
        key = self._keys.get(topic_partition)
        if key is not None:
            self._changed[key] = None

    def make_ready(self, followed: FollowedPartition) -> None:
        """At the end of the line: it got data, or comes back."""
        key = followed.key
        held = key in self.held
        self._leave(key)
        followed.stage = FetchStage.FETCHING
        self.ready[key] = followed
        if held:
            self.held[key] = None

    def delay(self, followed: FollowedPartition, now_ms: int, pause_ms: int) -> None:
        self._leave(followed.key)
        followed.stage = FetchStage.FETCHING
        self._delayed.setdefault(pause_ms, {})[followed.key] = now_ms + pause_ms

    def ask(self, followed: FollowedPartition, stage: FetchStage) -> None:
        self._leave(followed.key)
        followed.stage = stage
        self.asking[followed.key] = followed

    def end_delays(self, now_ms: int) -> None:
        for delayed in self._delayed.values():
            while delayed:
                key, due_ms = next(iter(delayed.items()))
                if due_ms > now_ms:
                    break
                self.make_ready(self._by_key[key])

    def hold(self, throttle: HoldsBack, now_ms: int) -> None:
        held = {
            key: None
            for key, each in self.ready.items()
            if each.may_be_throttled and throttle.holds(each.topic_partition, now_ms)
        }
        for key in self.held.keys() ^ held.keys():
            self._changed[key] = None
        self.held = held

    def take_changed(self) -> dict[PartitionKey, None]:
        changed, self._changed = self._changed, {}
        return changed

    def wished(self, key: PartitionKey) -> FollowedPartition | None:
        """The partition, if requests name it."""
        return None if key in self.held else self.ready.get(key)

    def _leave(self, key: PartitionKey) -> None:
        for place in (self.ready, self.asking):
            place.pop(key, None)
        for delayed in self._delayed.values():
            delayed.pop(key, None)
        self.held.pop(key, None)
        self._changed[key] = None

    def check_invariants(self) -> None:
        delayed = [key for each in self._delayed.values() for key in each]
        placed = [*self.ready, *delayed, *self.asking]
        assert sorted(placed) == sorted(self._by_key), placed
        assert self.held.keys() <= self.ready.keys()
        for each in self._delayed.values():
            assert list(each.values()) == sorted(each.values()), each
