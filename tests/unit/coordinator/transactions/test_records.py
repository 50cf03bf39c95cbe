"""Records of __transaction_state, byte for byte as Kafka 4.3 writes them."""

import pytest

from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.coordinator.transactions.metadata import TransactionMetadata, TxnState
from ledgerstone.coordinator.transactions.transaction_records import (
    TransactionEntry,
    read_record,
    transaction_key,
    transaction_value,
)
from ledgerstone.errors import CorruptRecord
from tests.unit.coordinator.transactions.desk import FOO_0, FOO_1

START, UPDATE = 1_700_000_000_000, 1_700_000_001_000

ONGOING = TransactionMetadata(
    producer_id=4000,
    producer_epoch=7,
    timeout_ms=60_000,
    state=TxnState.ONGOING,
    partitions={FOO_0: None, FOO_1: None},
    start_ms=START,
    last_update_ms=UPDATE,
)
PREPARED = TransactionMetadata(
    producer_id=4000,
    producer_epoch=8,
    previous_producer_id=4000,
    timeout_ms=60_000,
    state=TxnState.PREPARE_COMMIT,
    partitions={FOO_0: None, FOO_1: None},
    start_ms=START,
    last_update_ms=UPDATE,
    client_version=2,
)
EMPTY = TransactionMetadata(
    producer_id=4000,
    producer_epoch=0,
    previous_producer_id=4000,
    timeout_ms=60_000,
    last_update_ms=START,
)
GOLDEN = [
    (
        ONGOING,
        0,
        "00000000000000000fa000070000ea6001000000010003666f6f000000020000000000000001"
        "0000018bcfe56be80000018bcfe56800",
    ),
    (
        PREPARED,
        2,
        "00010000000000000fa000080000ea60020204666f6f03000000000000000100"
        "0000018bcfe56be80000018bcfe568000200080000000000000fa002020002",
    ),
    (
        EMPTY,
        2,
        "00010000000000000fa000000000ea6000000000018bcfe56800ffffffffffffffff"
        "0100080000000000000fa0",
    ),
]


@pytest.mark.parametrize(("metadata", "server_version", "golden"), GOLDEN)
def test_values_are_kafkas(metadata: TransactionMetadata, server_version: int, golden: str) -> None:
    value = transaction_value(metadata, server_version)

    assert value.hex() == golden
    assert read_record(transaction_key("txn"), value) == TransactionEntry("txn", metadata)


def test_the_key_is_kafkas() -> None:
    assert transaction_key("txn").hex() == "0000000374786e"


def test_ids_of_an_overflow_are_in_the_record() -> None:
    metadata = TransactionMetadata(
        producer_id=4000,
        producer_epoch=32_767,
        previous_producer_id=4000,
        next_producer_id=5000,
        state=TxnState.PREPARE_ABORT,
        client_version=2,
    )

    entry = read_record(transaction_key("t"), transaction_value(metadata, 2))

    assert entry == TransactionEntry("t", metadata)


def test_a_tombstone_has_no_value() -> None:
    assert read_record(transaction_key("t"), None) == TransactionEntry("t", None)


def test_unknown_versions_are_skipped_as_in_kafka() -> None:
    key = transaction_key("t")

    assert read_record(b"\0\1" + key[2:], b"\0\0") is None
    assert read_record(key, b"\0\2" + bytes(40)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0", b""),
        (b"\0\0\0\5ab", None),
        (transaction_key("t"), b"\0\1\1"),
        (transaction_key("t"), transaction_value(ONGOING, 0)[:-1]),
    ],
)
def test_bytes_that_are_no_record_are_corrupt(key: bytes, value: bytes | None) -> None:
    with pytest.raises(CorruptRecord):
        read_record(key, value)


def test_a_state_that_does_not_exist_is_corrupt() -> None:
    value = bytearray(transaction_value(EMPTY, 0))
    value[2 + 8 + 2 + 4] = 9

    with pytest.raises(CorruptRecord, match="state 9"):
        read_record(transaction_key("t"), bytes(value))


@pytest.mark.parametrize(
    ("transactional_id", "partition"),
    [("txn", 6), ("my-transactional-id", 46), ("grüße", 23), ("😀", 49)],
)
def test_an_id_has_kafkas_partition(transactional_id: str, partition: int) -> None:
    assert partition_for(transactional_id, 50) == partition
