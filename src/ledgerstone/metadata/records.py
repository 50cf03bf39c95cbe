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
    return [FeatureLevelRecord(name=METADATA_VERSION_FEATURE, feature_level=METADATA_VERSION)]
