"""Records of the offsets topic: bytes to facts and back. Pure. The table is in README.md.

A key starts with two bytes that name its type and version, a value with two that name its version.
"""

from typing import Final, NamedTuple

from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.coordinator.turn import GroupRecord
from ledgerstone.coordinator.versioned import VERSION_BYTES, body_of, version_of, versioned
from ledgerstone.protocol.codec import decode
from ledgerstone.protocol.message import ZERO_UUID
from ledgerstone.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ledgerstone.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ledgerstone.protocol.wire import MalformedMessage
from ledgerstone.types import NO_TIMESTAMP, TopicPartition

OFFSET_COMMIT_KEY_VERSIONS: Final = (0, 1)
OFFSET_COMMIT_KEY_VERSION: Final = 1
# As Kafka writes since 4.1; earlier brokers read it too, without the topic id.
OFFSET_COMMIT_VALUE_VERSION: Final = 4
# The only version with room for an expiry time of its own; it has none for the leader epoch.
OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY: Final = 1
GROUP_METADATA_KEY_VERSION: Final = 2
GROUP_METADATA_VALUE_VERSION: Final = 3

# Version 0 of the subscription is a prefix of every later one.
_SUBSCRIPTION_PREFIX_VERSION: Final = 0


class OffsetEntry(NamedTuple):
    """An offset was committed, or, without one, deleted."""

    group_id: str
    topic_partition: TopicPartition
    committed: CommittedOffset | None


class GroupEntry(NamedTuple):
    """A group reached a new generation, or, without a value, was deleted."""

    group_id: str
    value: GroupMetadataValue | None


def offset_record(
    group_id: str,
    topic_partition: TopicPartition,
    committed: CommittedOffset,
    topic_id: bytes = ZERO_UUID,
) -> GroupRecord:
    """The topic id is all zero in transactions, whose requests have none."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=topic_id,
    )
    version = OFFSET_COMMIT_VALUE_VERSION
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        version = OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY
    return GroupRecord(_offset_key(group_id, topic_partition), versioned(value, version))


def offset_tombstone(group_id: str, topic_partition: TopicPartition) -> GroupRecord:
    return GroupRecord(_offset_key(group_id, topic_partition), None)


def group_record(group_id: str, value: GroupMetadataValue) -> GroupRecord:
    return GroupRecord(_group_key(group_id), versioned(value, GROUP_METADATA_VALUE_VERSION))


def group_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(_group_key(group_id), None)


def read_record(key: bytes, value: bytes | None) -> OffsetEntry | GroupEntry | None:
    """What a record says; None if its type is not one of ours, as with newer group protocols."""
    key_version = version_of(key, "key")
    if key_version in OFFSET_COMMIT_KEY_VERSIONS:
        offset_key = body_of(OffsetCommitKey, key)
        topic_partition = TopicPartition(offset_key.topic, offset_key.partition)
        committed = None if value is None else _committed(body_of(OffsetCommitValue, value))
        return OffsetEntry(offset_key.group, topic_partition, committed)
    if key_version == GROUP_METADATA_KEY_VERSION:
        group_key = body_of(GroupMetadataKey, key)
        metadata = None if value is None else body_of(GroupMetadataValue, value)
        return GroupEntry(group_key.group, metadata)
    return None


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics in a consumer's subscription; None if the bytes are not one."""
    if len(metadata) < VERSION_BYTES:
        return None
    try:
        subscription, _ = decode(
            ConsumerProtocolSubscription, _SUBSCRIPTION_PREFIX_VERSION, metadata, VERSION_BYTES
        )
    except MalformedMessage:
        return None
    return subscription.topics


def _offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    topic, partition = topic_partition
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return versioned(key, OFFSET_COMMIT_KEY_VERSION)


def _group_key(group_id: str) -> bytes:
    return versioned(GroupMetadataKey(group=group_id), GROUP_METADATA_KEY_VERSION)


def _committed(value: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
    )
