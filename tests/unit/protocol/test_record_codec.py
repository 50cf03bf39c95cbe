"""Records of the metadata log and of the coordinator logs."""

import random
from types import ModuleType

import pytest

from ledgerstone.protocol.codec import schema_of
from ledgerstone.protocol.message import Message
from ledgerstone.protocol.messages import (
    group_records,
    metadata_records,
    txn_records,
)
from ledgerstone.protocol.messages.group_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ledgerstone.protocol.messages.metadata_records import (
    NoOpRecord,
    PartitionChangeRecord,
    TopicRecord,
)
from ledgerstone.protocol.record_codec import (
    UnknownRecord,
    decode_metadata_record,
    decode_record_key,
    decode_record_value,
    encode_metadata_record,
    encode_record_key,
    encode_record_value,
)
from ledgerstone.protocol.wire import MalformedMessage
from tests.unit.protocol.random_messages import random_message


def test_topic_record_has_the_bytes_of_kafka() -> None:
    record = TopicRecord(name="foo", topic_id=bytes(range(16)))

    data = encode_metadata_record(record, 0)

    assert data == b"\x01\x02\x00" + b"\x04foo" + bytes(range(16)) + b"\x00"
    assert decode_metadata_record(data) == record


def test_offset_commit_has_the_bytes_of_kafka() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=5)
    value = OffsetCommitValue(offset=9, leader_epoch=2, metadata="m", commit_timestamp=1000)

    key_data, value_data = encode_record_key(key, 1), encode_record_value(value, 3)

    assert key_data == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x05"
    assert value_data == (
        b"\x00\x03" + (9).to_bytes(8) + (2).to_bytes(4) + b"\x00\x01m" + (1000).to_bytes(8)
    )
    assert decode_record_key(group_records, key_data) == key
    assert decode_record_value(OffsetCommitValue, value_data) == value


def test_change_record_sends_only_what_changes() -> None:
    record = PartitionChangeRecord(partition_id=1, topic_id=bytes(16), leader=3)

    data = encode_metadata_record(record, 0)

    assert data.endswith(b"\x01\x01\x04\x00\x00\x00\x03")
    assert decode_metadata_record(data) == record


def test_key_type_chooses_the_class() -> None:
    key = decode_record_key(group_records, b"\x00\x02\x00\x01g")

    assert key == GroupMetadataKey(group="g")


def test_tagged_struct_of_a_value_survives() -> None:
    value = ConsumerGroupMemberMetadataValue(
        client_id="c", classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=9)
    )

    assert decode_record_value(type(value), encode_record_value(value, 0)) == value


@pytest.mark.parametrize("family", [metadata_records, group_records, txn_records])
def test_every_record_in_every_version_comes_back_as_it_was(family: ModuleType) -> None:
    dice = random.Random(1)
    for spec in schema_of(family.__name__).messages:
        for version in range(spec.versions.first, spec.versions.last + 1):
            record = random_message(getattr(family, spec.name), version, dice)

            back: Message
            if spec.kind == "record":
                back = decode_metadata_record(encode_metadata_record(record, version))
            elif spec.kind == "key":
                back = decode_record_key(family, encode_record_key(record, version))
            else:
                back = decode_record_value(type(record), encode_record_value(record, version))

            assert back == record


def test_record_of_a_newer_release_is_reported_as_such() -> None:
    with pytest.raises(UnknownRecord, match="type 99"):
        decode_metadata_record(b"\x01\x63\x00\x00")
    with pytest.raises(UnknownRecord, match="frame version 2"):
        decode_metadata_record(b"\x02\x02\x00\x00")
    with pytest.raises(UnknownRecord, match="type 500"):
        decode_record_key(group_records, b"\x01\xf4")
    with pytest.raises(UnknownRecord, match="TopicRecord v9"):
        decode_metadata_record(b"\x01\x02\x09\x00")
    with pytest.raises(UnknownRecord, match="OffsetCommitValue v9"):
        decode_record_value(OffsetCommitValue, b"\x00\x09")


def test_record_cut_short_is_malformed() -> None:
    data = encode_metadata_record(NoOpRecord(), 0)
    for size in range(len(data)):
        with pytest.raises(MalformedMessage):
            decode_metadata_record(data[:size])
    with pytest.raises(MalformedMessage):
        decode_record_key(group_records, b"\x00")
    with pytest.raises(MalformedMessage):
        decode_record_value(OffsetCommitValue, b"")
