"""Partitions as the wire wants them: a list of topics, each with its partitions. Pure."""

from collections.abc import Mapping
from typing import TypeVar

from ledgerstone.types import TopicPartition

V = TypeVar("V")


def by_topic(partitions: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    """In the order given, so that rotated partitions are also rotated on the wire."""
    topics: dict[str, dict[int, V]] = {}
    for (topic, partition), value in partitions.items():
        topics.setdefault(topic, {})[partition] = value
    return topics
