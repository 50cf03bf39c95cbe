"""Partitions of a request about offsets: those that exist, and those that do not. Pure.

As in Kafka, the ones that do not exist come first in the answer.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from ledgerstone.metadata.image import MetadataImage


class TopicOfOffsets(Protocol):
    """Of a request or of its answer."""

    name: str
    # A list of each API's own class; all of them have a `partition_index`.
    partitions: Any


T = TypeVar("T", bound=TopicOfOffsets)


class Missing(NamedTuple):
    topic: str
    numbers: list[int]


def split_partitions(
    image: MetadataImage, topics: Sequence[T]
) -> tuple[list[tuple[T, list[Any]]], list[Missing]]:
    """Topics with those of their partitions that exist, and the rest."""
    known: list[tuple[T, list[Any]]] = []
    missing: list[Missing] = []
    for topic in topics:
        numbers = image.partition_numbers(topic.name)
        there = [each for each in topic.partitions if each.partition_index in numbers]
        if there:
            known.append((topic, there))
        if len(there) < len(topic.partitions):
            asked = [each.partition_index for each in topic.partitions]
            missing.append(Missing(topic.name, [each for each in asked if each not in numbers]))
    return known, missing


def add_answered(refused: list[T], answered: Sequence[T]) -> None:
    """A topic in both keeps its place."""
    by_name = {topic.name: topic for topic in refused}
    for topic in answered:
        if topic.name in by_name:
            by_name[topic.name].partitions += topic.partitions
        else:
            refused.append(topic)
