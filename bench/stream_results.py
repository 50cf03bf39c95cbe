"""The results of an aggregate as a reader of their topic sees them. Shell.

Ours and Kafka Streams' are measured alike: from outside, by what is in the topic.
"""

import json
import time
from types import TracebackType
from typing import Final, NamedTuple, Self

from confluent_kafka import Consumer, TopicPartition

_TIMEOUT_S: Final = 900.0
_POLL_S: Final = 0.5


class Totals(NamedTuple):
    """Over all groups."""

    keys: int
    paid: int


class Results:
    """Values are JSON with `count` and `sum`; the latest of each key counts."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._latest: dict[bytes, Totals] = {}
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
        )
        numbers = self._consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in numbers])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def seconds_until(self, wanted: Totals) -> float:
        started = time.perf_counter()
        while self._now() != wanted:
            if time.perf_counter() - started > _TIMEOUT_S:
                raise RuntimeError(f"{self._now()} instead of {wanted} after {_TIMEOUT_S:g} s")
            message = self._consumer.poll(_POLL_S)
            if message is None or message.error() is not None:
                continue
            key, value = message.key(), message.value()
            assert key is not None
            if value is None:
                self._latest.pop(key, None)
            else:
                found = json.loads(value)
                self._latest[key] = Totals(found["count"], found["sum"])
        return time.perf_counter() - started

    def _now(self) -> Totals:
        found = self._latest.values()
        return Totals(sum(each.keys for each in found), sum(each.paid for each in found))
