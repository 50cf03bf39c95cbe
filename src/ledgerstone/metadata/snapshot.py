"""An image as records: the content of a snapshot. Pure.

In the order of Kafka's snapshots: features, metadata.version first, since it says how the rest is
to be read; brokers, controllers, topics with their partitions, settings, quotas, producer ids,
ACLs, SCRAM users, delegation tokens. Replayed into an empty image they give the same image.
"""

from collections.abc import Iterator
from typing import Final

from ledgerstone.errors import InvariantViolation
from ledgerstone.metadata.features import METADATA_VERSION_FEATURE
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.record_images import (
    broker_record,
    controller_record,
    partition_record,
    quota_record,
)
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

_AFTER_ACLS: Final = (
    UserScramCredentialRecord,
    DelegationTokenRecord,
)


def snapshot_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Lazily, from a value that never changes: another thread may iterate."""
    if image.open_transaction is not None:
        raise InvariantViolation("there are no snapshots inside a metadata transaction")
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION_FEATURE, name))
    for name in names:
        yield FeatureLevelRecord(name, image.features[name])
    for broker in image.brokers.values():
        yield broker_record(broker)
    for controller in image.controllers.values():
        yield controller_record(controller)
    for topic in image.topics.values():
        yield TopicRecord(topic.name, topic.topic_id)
        for number, partition in topic.partitions.items():
            yield partition_record(topic.topic_id, number, partition)
    for resource, values in image.configs.items():
        for key, value in values.items():
            yield ConfigRecord(*resource, key, value)
    for entity, limits in image.client_quotas.items():
        for key, limit in limits.items():
            yield quota_record(entity, key, limit)
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(-1, -1, image.next_producer_id)
    for acl_id, acl in image.acls.items():
        yield AccessControlEntryRecord(acl_id, *acl)
    for kind in _AFTER_ACLS:
        yield from _kept(image, kind)


def _kept(image: MetadataImage, kind: type[MetadataRecord]) -> Iterator[MetadataRecord]:
    return (each for each in image.kept.values() if isinstance(each, kind))
