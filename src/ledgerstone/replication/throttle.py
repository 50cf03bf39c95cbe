"""Bounds the rate at which replicas catch up, so that clients keep their share. Pure.

A role, leader or follower, has one of these: a rate, and the replicas it counts for. The caller
leaves replicas alone that are in sync: a throttle never pushes one out of the ISR.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from ledgerstone.metadata.image import MetadataImage, ResourceType
from ledgerstone.types import INT64_MAX, TopicPartition

NO_LIMIT: Final = INT64_MAX
_EVERY: Final = "*"
_LONGEST_NUMBER: Final = 10


class ByteRate:
    """Bytes a second, over the last windows."""

    __slots__ = ("_samples", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        # Number of the window, and bytes in it; oldest first.
        self._samples: deque[tuple[int, int]] = deque()

    def record(self, size_bytes: int, now_ms: int) -> None:
        number = now_ms // self._window_ms
        if self._samples and self._samples[-1][0] == number:
            size_bytes += self._samples.pop()[1]
        self._samples.append((number, size_bytes))
        self._forget(number)

    def per_second(self, now_ms: int) -> float:
        self._forget(now_ms // self._window_ms)
        if not self._samples:
            return 0.0
        began_ms = self._samples[0][0] * self._window_ms
        # A burst in the first moments is not taken for a rate that lasts.
        elapsed_ms = max(now_ms - began_ms, self._window_ms)
        return sum(size for _, size in self._samples) * 1000 / elapsed_ms

    def _forget(self, number: int) -> None:
        while self._samples and self._samples[0][0] <= number - self._windows:
            self._samples.popleft()


def _number(text: str) -> int | None:
    """The setting is committed, so what names nothing must not stop a broker: a list may end with a
    comma."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if is_number else None


class ReplicationThrottle:
    """`configure` says what the settings say; `record` what was replicated."""

    def __init__(self, node_id: int, *, windows: int, window_ms: int) -> None:
        self._node_id = node_id
        self._rate = ByteRate(windows, window_ms)
        self._limit = NO_LIMIT
        self._replicas: dict[str, frozenset[int] | None] = {}

    @property
    def is_active(self) -> bool:
        return self._limit != NO_LIMIT and bool(self._replicas)

    def follow_settings(self, image: MetadataImage, role: str, static: Mapping[str, str]) -> None:
        """Those of `role`, leader or follower."""
        values = image.broker_values(self._node_id, static)
        key = f"{role}.replication.throttled.replicas"
        replicas = {
            resource.name: entries.split(",")
            for resource, settings in image.configs.items()
            if resource.resource_type == ResourceType.TOPIC and (entries := settings.get(key))
        }
        self.configure(int(values.get(f"{role}.replication.throttled.rate", NO_LIMIT)), replicas)

    def configure(self, limit: int, replicas: Mapping[str, Iterable[str]]) -> None:
        """Bytes a second; by topic, what `throttled.replicas` names."""
        self._limit = limit
        self._replicas = {
            topic: self._own(list(entries)) for topic, entries in replicas.items() if entries
        }

    def _own(self, entries: list[str]) -> frozenset[int] | None:
        """Partitions that count here; None: all of them."""
        if any(each.strip() == _EVERY for each in entries):
            return None
        pairs = (each.strip().partition(":") for each in entries)
        numbers = [(_number(partition), _number(node)) for partition, _, node in pairs]
        return frozenset(
            partition
            for partition, node in numbers
            if partition is not None and node == self._node_id
        )

    def names(self, topic: str) -> bool:
        return topic in self._replicas

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        topic, number = topic_partition
        if topic not in self._replicas:
            return False
        numbers = self._replicas[topic]
        return numbers is None or number in numbers

    def record(self, topic_partition: TopicPartition, size_bytes: int, now_ms: int) -> None:
        if self.is_active and self.is_throttled(topic_partition):
            self._rate.record(size_bytes, now_ms)

    def holds(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        """Whether the partition has to wait: its replicas have had more than their share."""
        return self.is_throttled(topic_partition) and self._rate.per_second(now_ms) > self._limit
