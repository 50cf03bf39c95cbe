"""Metadata records to bytes and back, in the versions this cluster writes. Pure.

The framing and the schemas are the protocol's. What is chosen here is the version each record is
written in, which follows from metadata.version. Every version is read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ledgerstone.metadata.features import (
    CORDONED_DIRECTORIES_FROM,
    DIRECTORIES_FROM,
    ELR_FROM,
    METADATA_VERSION,
    METADATA_VERSION_FEATURE,
    MINIMUM_METADATA_VERSION,
    TRANSACTION_VERSION,
    TRANSACTION_VERSION_FEATURE,
    ZK_MIGRATION_FROM,
)
from ledgerstone.metadata.partition_codec import (
    CHANGE_PREFIXES,
    PARTITION_PREFIXES,
    read_change,
    read_partition,
    write_partition,
)
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from ledgerstone.protocol.record_codec import decode_metadata_record, encode_metadata_record
from ledgerstone.types import Buffer

# Versions by metadata.version: from the level on, the version. Types that are not named are written
# as version 0.
_WRITTEN: Final[Mapping[type[MetadataRecord], Sequence[tuple[int, int]]]] = {
    RegisterBrokerRecord: (
        (CORDONED_DIRECTORIES_FROM, 4),
        (DIRECTORIES_FROM, 3),
        (ZK_MIGRATION_FROM, 2),
        (MINIMUM_METADATA_VERSION, 1),
    ),
    PartitionRecord: ((ELR_FROM, 2), (DIRECTORIES_FROM, 1)),
    PartitionChangeRecord: ((ELR_FROM, 2), (DIRECTORIES_FROM, 1)),
}


def encode_record(record: MetadataRecord, metadata_version: int = METADATA_VERSION) -> bytes:
    """As a controller of Kafka's writes it at that level."""
    version = written_version(record, metadata_version)
    if isinstance(record, PartitionRecord):
        written = write_partition(record, version)
        if written is not None:
            return written
    return encode_metadata_record(record, version)


def encode_records(
    records: Iterable[MetadataRecord], metadata_version: int = METADATA_VERSION
) -> Iterator[bytes]:
    """One after the other. Where metadata.version itself is among them, as in a snapshot, the rest
    is written by that."""
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION_FEATURE:
            metadata_version = record.feature_level
        yield encode_record(record, metadata_version)


def written_version(record: MetadataRecord, metadata_version: int) -> int:
    if isinstance(record, BrokerRegistrationChangeRecord):
        return _change_version(record)
    for level, version in _WRITTEN.get(type(record), ()):
        if metadata_version >= level:
            return version
    return 0


def _change_version(record: BrokerRegistrationChangeRecord) -> int:
    """The lowest that has all of its fields. None is set before its level allows it."""
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0


def decode_record(value: Buffer) -> MetadataRecord:
    """UnknownRecord or MalformedMessage: the log is not one this release can follow."""
    record: MetadataRecord | None = None
    prefix = bytes(value[:3])
    if prefix in PARTITION_PREFIXES:
        record = read_partition(bytes(value))
    elif prefix in CHANGE_PREFIXES:
        record = read_change(bytes(value))
    return decode_metadata_record(value) if record is None else record


def bootstrap_records(features: Mapping[str, int] | None = None) -> list[MetadataRecord]:
    """The features of a new cluster, metadata.version first. Without any named: those of a single
    node that nobody has formatted."""
    if features is None:
        features = {
            METADATA_VERSION_FEATURE: METADATA_VERSION,
            TRANSACTION_VERSION_FEATURE: TRANSACTION_VERSION,
        }
    names = sorted(features, key=lambda name: (name != METADATA_VERSION_FEATURE, name))
    return [FeatureLevelRecord(name, features[name]) for name in names if features[name]]


def missing_features(finalized: Mapping[str, int]) -> list[MetadataRecord]:
    """What a release that knew no transactions has left unset. A level that was set stays: whoever
    chose it had a reason."""
    if TRANSACTION_VERSION_FEATURE in finalized:
        return []
    level = TRANSACTION_VERSION
    return [FeatureLevelRecord(name=TRANSACTION_VERSION_FEATURE, feature_level=level)]
