"""Every generated API in every version, byte for byte against kio, both ways."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.codec import api_class, decode, encode
from ledgerstone.protocol.message import Message
from ledgerstone.protocol.messages import (
    APIS,
    consumer_protocol,
    control_records,
    principal,
)
from tests.kit.sized import examples
from tests.unit.protocol.kio_oracle import Pair, kio_bytes, kio_class, kio_parse, random_pair

# Ours alone: nobody else has its schema.
KEYS = [key for key, api in APIS.items() if api.module is not None and key != ApiKey.ERASURE_WORK]
SIDES = [(key, side) for key in KEYS for side in ("request", "response")]
DATA = [
    (consumer_protocol.ConsumerProtocolSubscription, "consumer_protocol_subscription", 0, 3),
    (consumer_protocol.ConsumerProtocolAssignment, "consumer_protocol_assignment", 0, 3),
    (control_records.EndTxnMarker, "end_txn_marker", 0, 0),
    (control_records.LeaderChangeMessage, "leader_change_message", 0, 1),
    (control_records.SnapshotHeaderRecord, "snapshot_header_record", 0, 0),
    (control_records.SnapshotFooterRecord, "snapshot_footer_record", 0, 0),
    (control_records.KRaftVersionRecord, "k_raft_version_record", 0, 0),
    (control_records.VotersRecord, "voters_record", 0, 0),
    (control_records.ControlRecordType, "control_record_type_schema", 0, 0),
    (principal.DefaultPrincipalData, "default_principal_data", 0, 0),
]

seeds = st.integers(0, 2**32)


def with_plain_records(message: Any) -> Any:
    """Decoded records are views; equality with what was sent wants bytes."""
    for topic in getattr(message, "topic_data", getattr(message, "responses", ())) or ():
        for each in getattr(topic, "partition_data", getattr(topic, "partitions", ())):
            if getattr(each, "records", None) is not None:
                each.records = bytes(each.records)
    for topic in getattr(message, "topics", ()) or ():
        for each in getattr(topic, "partitions", ()):
            if getattr(each, "unaligned_records", None) is not None:
                each.unaligned_records = bytes(each.unaligned_records)
    return message


def check_both_ways(message_class: type[Message], pair: Pair, version: int) -> None:
    ours = b"".join(encode(pair.ours, version))  # type: ignore[arg-type]
    theirs = kio_bytes(pair.theirs)
    assert ours == theirs

    back, end = decode(message_class, version, theirs)
    assert end == len(theirs)
    assert with_plain_records(back) == pair.ours
    assert kio_parse(type(pair.theirs), ours) == pair.theirs


def check_versions(key: int, side: str, seed: int) -> None:
    message_class = api_class(key, side.capitalize())
    for version in range(APIS[key].first_version, APIS[key].last_version + 1):
        theirs = kio_class("", version, side, key)
        pair = random_pair(message_class, theirs, version, random.Random(f"{seed}/{version}"))
        check_both_ways(message_class, pair, version)


@pytest.mark.parametrize(("key", "side"), SIDES)
@examples(2)
@given(seed=seeds)
def test_api_message_has_the_bytes_kio_gives_it(key: int, side: str, seed: int) -> None:
    check_versions(key, side, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "side"), SIDES)
@examples(100)
@given(seed=seeds)
def test_many_api_messages_have_the_bytes_kio_gives_them(key: int, side: str, seed: int) -> None:
    check_versions(key, side, seed)


@pytest.mark.parametrize(("message_class", "name", "first", "last"), DATA)
@examples(5)
@given(seed=seeds)
def test_data_message_has_the_bytes_kio_gives_it(
    message_class: type[Message], name: str, first: int, last: int, seed: int
) -> None:
    for version in range(first, last + 1):
        theirs = kio_class(name, version, "data", None)
        pair = random_pair(message_class, theirs, version, random.Random(f"{seed}/{version}"))

        check_both_ways(message_class, pair, version)
