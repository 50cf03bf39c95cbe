"""What changed between two images, in the words a broker acts on. Pure.

Images share what did not change, so whole levels are passed over by identity: the cost follows
the changes, not the size of the cluster. Everything is in the order of names, so that every
broker does the same things in the same order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ledgerstone.metadata.image import (
    ConfigResource,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)

K = TypeVar("K")
V = TypeVar("V")


class PartitionDelta(NamedTuple):
    topic: str
    topic_id: bytes
    partition: int
    before: PartitionImage | None  # None for a partition that was added.
    after: PartitionImage


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Act in the order of the fields: a name may be deleted and created anew in one delta."""

    topics_deleted: tuple[TopicImage, ...] = ()  # As they were.
    topics_created: tuple[TopicImage, ...] = ()  # With all their partitions and settings.
    partitions_added: tuple[PartitionDelta, ...] = ()  # To topics that were there before.
    partitions_changed: tuple[PartitionDelta, ...] = ()  # Leader, replicas, ISR or an epoch.
    configs_changed: tuple[ConfigResource, ...] = ()  # Of brokers, and of topics that stayed.
    brokers_changed: tuple[int, ...] = ()
    features_changed: bool = False

    @property
    def is_empty(self) -> bool:
        return self == _NOTHING


_NOTHING = Delta()


def difference(before: MetadataImage, after: MetadataImage) -> Delta:
    deleted, created, stayed = _topics(before, after)
    partitions = [delta for old, new in stayed for delta in _partitions(old, new)]
    return Delta(
        topics_deleted=tuple(deleted),
        topics_created=tuple(created),
        partitions_added=tuple(delta for delta in partitions if delta.before is None),
        partitions_changed=tuple(delta for delta in partitions if delta.before is not None),
        configs_changed=tuple(_configs(before, after)),
        brokers_changed=tuple(_brokers(before, after)),
        features_changed=before.features != after.features,
    )


def _topics(
    before: MetadataImage, after: MetadataImage
) -> tuple[list[TopicImage], list[TopicImage], list[tuple[TopicImage, TopicImage]]]:
    """Topics that went, topics that came, and those that stayed but are not the same value."""
    if before.topics is after.topics:
        return [], [], []
    deleted, created, stayed = [], [], []
    for name in sorted(_changed_keys(before.topics, after.topics)):
        old, new = before.topics.get(name), after.topics.get(name)
        if old is not None and new is not None and old.topic_id == new.topic_id:
            stayed.append((old, new))
            continue
        if old is not None:
            deleted.append(old)
        if new is not None:
            created.append(new)
    return deleted, created, stayed


def _partitions(old: TopicImage, new: TopicImage) -> list[PartitionDelta]:
    deltas = []
    for number, after in sorted(new.partitions.items()):
        before = old.partitions.get(number)
        if before is not after and before != after:
            deltas.append(PartitionDelta(new.name, new.topic_id, number, before, after))
    return deltas


def _configs(before: MetadataImage, after: MetadataImage) -> list[ConfigResource]:
    if before.configs is after.configs:
        return []
    return [
        resource
        for resource in sorted(_changed_keys(before.configs, after.configs))
        if before.config_of(resource) != after.config_of(resource)
        and _owner_stayed(resource, before, after)
    ]


def _owner_stayed(resource: ConfigResource, before: MetadataImage, after: MetadataImage) -> bool:
    if resource.resource_type != ResourceType.TOPIC:
        return True
    old, new = before.topics.get(resource.name), after.topics.get(resource.name)
    return old is not None and new is not None and old.topic_id == new.topic_id


def _brokers(before: MetadataImage, after: MetadataImage) -> list[int]:
    if before.brokers is after.brokers:
        return []
    numbers = sorted(_changed_keys(before.brokers, after.brokers))
    return [number for number in numbers if before.brokers.get(number) != after.brokers.get(number)]


def _changed_keys(before: Mapping[K, V], after: Mapping[K, V]) -> list[K]:
    """Keys that came, have another object now, or went. They are few: sorting them is cheap."""
    changed = [key for key, value in after.items() if before.get(key) is not value]
    return changed + [key for key in before if key not in after]
