"""What changed between two images, in the words a broker acts on. Pure.

Only what the records touched is compared, so the cost follows the changes, not the size of the
cluster. Everything is in the order of names, so that every broker does the same things in the same
order.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.metadata.image import (
    ConfigResource,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ledgerstone.security.acl import Acl


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
    acls_removed: tuple[Acl, ...] = ()
    acls_added: tuple[Acl, ...] = ()
    quotas_changed: bool = False

    @property
    def is_empty(self) -> bool:
        return self == _NOTHING


_NOTHING = Delta()


class Touched(NamedTuple):
    """What a batch of records named: a superset of what differs."""

    topics: Collection[str]
    partitions: Mapping[str, Collection[int]]
    configs: Collection[ConfigResource]
    brokers: Collection[int]
    acls: Collection[bytes]


def delta_of(before: MetadataImage, after: MetadataImage, touched: Touched) -> Delta:
    deleted, created, stayed = _topics(before, after, touched.topics)
    partitions = [
        delta
        for old, new in stayed
        for delta in _partitions(old, new, touched.partitions.get(new.name, ()))
    ]
    return Delta(
        topics_deleted=tuple(deleted),
        topics_created=tuple(created),
        partitions_added=tuple(delta for delta in partitions if delta.before is None),
        partitions_changed=tuple(delta for delta in partitions if delta.before is not None),
        configs_changed=tuple(_configs(before, after, touched.configs)),
        brokers_changed=tuple(_brokers(before, after, touched.brokers)),
        features_changed=before.features != after.features,
        acls_removed=tuple(_acls(before, after, touched.acls)),
        acls_added=tuple(_acls(after, before, touched.acls)),
        quotas_changed=before.client_quotas != after.client_quotas,
    )


def difference(before: MetadataImage, after: MetadataImage) -> Delta:
    """Of any two images, by comparing everything: for a jump from a snapshot, and as the oracle of
    what `delta_of` finds from touched ids."""
    topics = before.topics.keys() | after.topics.keys()
    everything = Touched(
        topics=topics,
        partitions={name: after.partition_numbers(name) for name in topics},
        configs=before.configs.keys() | after.configs.keys(),
        brokers=before.brokers.keys() | after.brokers.keys(),
        acls=before.acls.keys() | after.acls.keys(),
    )
    return delta_of(before, after, everything)


def _topics(
    before: MetadataImage, after: MetadataImage, touched: Collection[str]
) -> tuple[list[TopicImage], list[TopicImage], list[tuple[TopicImage, TopicImage]]]:
    """Topics that went, topics that came, and those that stayed but are not the same value."""
    deleted, created, stayed = [], [], []
    for name in sorted(touched):
        old, new = before.topics.get(name), after.topics.get(name)
        if old is new:
            continue
        if old is not None and new is not None and old.topic_id == new.topic_id:
            stayed.append((old, new))
            continue
        if old is not None:
            deleted.append(old)
        if new is not None:
            created.append(new)
    return deleted, created, stayed


def _partitions(old: TopicImage, new: TopicImage, touched: Collection[int]) -> list[PartitionDelta]:
    deltas = []
    for number in sorted(touched):
        before, after = old.partitions.get(number), new.partitions[number]
        if before is not after and before != after:
            deltas.append(PartitionDelta(new.name, new.topic_id, number, before, after))
    return deltas


def _configs(
    before: MetadataImage, after: MetadataImage, touched: Collection[ConfigResource]
) -> list[ConfigResource]:
    return [
        resource
        for resource in sorted(touched)
        if before.config_of(resource) != after.config_of(resource)
        and _owner_stayed(resource, before, after)
    ]


def _owner_stayed(resource: ConfigResource, before: MetadataImage, after: MetadataImage) -> bool:
    if resource.resource_type != ResourceType.TOPIC:
        return True
    old, new = before.topics.get(resource.name), after.topics.get(resource.name)
    return old is not None and new is not None and old.topic_id == new.topic_id


def _brokers(before: MetadataImage, after: MetadataImage, touched: Collection[int]) -> list[int]:
    return [each for each in sorted(touched) if before.brokers.get(each) != after.brokers.get(each)]


def _acls(image: MetadataImage, other: MetadataImage, touched: Collection[bytes]) -> list[Acl]:
    """Those of an image that the other one does not have, under whatever id."""
    found = (image.acls[each] for each in touched if each in image.acls)
    return sorted(acl for acl in found if acl not in other.acl_ids)
