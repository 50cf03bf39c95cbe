"""Metadata records as bytes: Kafka's framing, in the versions of our metadata version."""

from pathlib import Path
from typing import Final

import pytest

from ledgerstone.metadata.image import NO_LEADER, MetadataImage
from ledgerstone.metadata.records import bootstrap_records, decode_record, encode_record
from ledgerstone.metadata.replay import apply
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerEndPoint,
    RegisterBrokerFeature,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ledgerstone.protocol.record_codec import encode_metadata_record
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records

ID: Final = bytes(range(16))
KAFKA_LOG: Final = (
    Path(__file__).parents[2] / "golden/kafka/log-dir/__cluster_metadata-0/00000000000000000000.log"
)


@pytest.mark.parametrize(
    ("record", "prefix"),
    [
        (
            RegisterBrokerRecord(
                broker_id=1,
                incarnation_id=ID,
                broker_epoch=7,
                end_points=[RegisterBrokerEndPoint("PLAINTEXT", "host", 65535, 0)],
                features=[RegisterBrokerFeature("metadata.version", 1, 25)],
                rack="r",
                log_dirs=[ID],
                cordoned_log_dirs=[ID],
            ),
            b"\x01\x00\x04",
        ),
        (TopicRecord("t", ID), b"\x01\x02\x00"),
        (PartitionRecord(3, ID, [1, 2], [1], directories=[ID, ID]), b"\x01\x03\x02"),
        (ConfigRecord(2, "t", "k", None), b"\x01\x04\x00"),
        (PartitionChangeRecord(3, ID, leader=-1, isr=[]), b"\x01\x05\x02"),
        (RemoveTopicRecord(ID), b"\x01\x09\x00"),
        (bootstrap_records()[0], b"\x01\x0c\x00"),
        (ProducerIdsRecord(1, 7, 1000), b"\x01\x0f\x00"),
        (BrokerRegistrationChangeRecord(1, 7, -1), b"\x01\x11\x00"),
        (BrokerRegistrationChangeRecord(1, 7, 0, 1), b"\x01\x11\x01"),
        (BrokerRegistrationChangeRecord(1, 7, -1, 1, [ID]), b"\x01\x11\x02"),
        (BrokerRegistrationChangeRecord(1, 7, cordoned_log_dirs=[]), b"\x01\x11\x03"),
    ],
)
def test_records_are_framed_with_their_type_and_version(
    record: MetadataRecord, prefix: bytes
) -> None:
    data = encode_record(record)

    assert data.startswith(prefix)
    assert decode_record(data) == record


@pytest.mark.parametrize(
    ("level", "broker", "partition"),
    [(7, 1, 0), (8, 2, 0), (16, 2, 0), (17, 3, 1), (22, 3, 1), (23, 3, 2), (29, 3, 2), (30, 4, 2)],
)
def test_versions_follow_from_metadata_version(level: int, broker: int, partition: int) -> None:
    records: list[MetadataRecord] = [
        RegisterBrokerRecord(),
        PartitionRecord(),
        PartitionChangeRecord(),
        TopicRecord(),
    ]

    versions = [encode_record(record, level)[2] for record in records]

    assert versions == [broker, partition, partition, 0]


def test_a_topic_record_is_these_bytes() -> None:
    data = encode_record(TopicRecord("foo", ID))

    assert data == b"\x01\x02\x00" + b"\x04foo" + ID + b"\x00"


# -- the metadata log of a real Kafka ------------------------------------------------------------


def _values_written_by_kafka() -> list[bytes]:
    data = KAFKA_LOG.read_bytes()
    return [
        record.value
        for position, header in iter_headers(data)
        if not header.is_control
        for record in iter_records(data, position)
        if record.value is not None
    ]


def test_records_of_kafka_are_encoded_as_kafka_encodes_them() -> None:
    values = _values_written_by_kafka()

    assert len(values) > 200
    for value in values:
        assert encode_metadata_record(decode_record(value), version=value[2]) == value


def test_the_log_of_kafka_can_be_followed_from_its_first_record_to_its_last() -> None:
    decoded = [decode_record(value) for value in _values_written_by_kafka()]

    image, _ = apply(MetadataImage(cluster_id="c"), decoded)

    image.check_invariants()
    assert image.metadata_version == 30
    assert image.brokers[1].fenced
    # As a clean stop of the only broker leaves them: led by nobody, the broker eligible.
    trimmed = image.topics["trimmed"].partitions[0]
    assert (trimmed.replicas, trimmed.isr, trimmed.leader) == ((1,), (), NO_LEADER)
    assert (trimmed.leader_epoch, trimmed.partition_epoch) == (1, 1)
    assert trimmed.eligible_leader_replicas == (1,)
    assert image.topic_config("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
