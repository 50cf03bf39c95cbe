"""Metadata records to bytes and back, in the versions this cluster writes. Pure.

The framing and the schemas are the protocol's. What is chosen here is the metadata version a new
cluster starts with, and with it the version each record is written in. Every older version is read.
"""

from collections.abc import Mapping
from typing import Final

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

METADATA_VERSION_FEATURE: Final = "metadata.version"
# 4.0-IV3: the newest level all of whose records are in our schemas.
METADATA_VERSION: Final = 25
# KIP-890: 1 has flexible records of transactions, 2 an epoch for each transaction.
TRANSACTION_VERSION_FEATURE: Final = "transaction.version"
TRANSACTION_VERSION: Final = 2
# KIP-966: replicas that left the ISR below min.insync.replicas and may still lead.
ELR_FEATURE: Final = "eligible.leader.replicas.version"
# What this release supports of each feature: the first level and the last.
SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION_FEATURE: (7, METADATA_VERSION),  # 3.3-IV3, where Kafka 4 begins too
    TRANSACTION_VERSION_FEATURE: (0, TRANSACTION_VERSION),
}

# Types that are not named are written as version 0. Version 2 of the partition records carries the
# eligible leader replicas, which nothing here keeps yet.
_WRITTEN: Final[Mapping[type[MetadataRecord], int]] = {
    RegisterBrokerRecord: 3,
    BrokerRegistrationChangeRecord: 2,
    PartitionRecord: 1,
    PartitionChangeRecord: 1,
}


def encode_record(record: MetadataRecord) -> bytes:
    return encode_metadata_record(record, _WRITTEN.get(type(record), 0))


def decode_record(value: Buffer) -> MetadataRecord:
    """UnknownRecord or MalformedMessage: the log is not one this release can follow."""
    return decode_metadata_record(value)


def bootstrap_records() -> list[MetadataRecord]:
    """The first records of a new cluster."""
    metadata = FeatureLevelRecord(name=METADATA_VERSION_FEATURE, feature_level=METADATA_VERSION)
    return [metadata, *missing_features({})]


def missing_features(finalized: Mapping[str, int]) -> list[MetadataRecord]:
    """What a release that knew no transactions has left unset. A level that was set stays: whoever
    chose it had a reason."""
    if TRANSACTION_VERSION_FEATURE in finalized:
        return []
    level = TRANSACTION_VERSION
    return [FeatureLevelRecord(name=TRANSACTION_VERSION_FEATURE, feature_level=level)]
