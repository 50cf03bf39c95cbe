"""Records of __transaction_state: bytes to facts and back. Pure. The table is in README.md."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from ledgerstone.coordinator.transactions.metadata import (
    FLEXIBLE_RECORDS,
    TransactionMetadata,
    TxnState,
)
from ledgerstone.coordinator.versioned import body_of, version_of, versioned
from ledgerstone.errors import CorruptRecord
from ledgerstone.protocol.messages.txn_records import (
    TransactionLogKey,
    TransactionLogTransactionPartition,
    TransactionLogValue,
)
from ledgerstone.types import TopicPartition

_KEY_VERSION: Final = 0
# Keys of longer ids are not kept: clients choose them.
_KEPT_LETTERS: Final = 256
_VALUE_VERSIONS: Final = (0, 1)


class TransactionEntry(NamedTuple):
    """A transactional id and its value; without one, it has expired."""

    transactional_id: str
    metadata: TransactionMetadata | None


def transaction_key(transactional_id: str) -> bytes:
    if len(transactional_id) <= _KEPT_LETTERS:
        return _known_key(transactional_id)
    return _key(transactional_id)


def _key(transactional_id: str) -> bytes:
    return versioned(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)


# Every step of a transaction writes the same one.
_known_key: Final = lru_cache(maxsize=1024)(_key)


def transaction_value(metadata: TransactionMetadata, server_version: int) -> bytes:
    """Version 1, which has the other producer ids, from the feature's level 1 on."""
    topics = None if metadata.state is TxnState.EMPTY else by_topic(metadata.partitions)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None
        if topics is None
        else [
            TransactionLogTransactionPartition(topic=topic, partition_ids=numbers)
            for topic, numbers in topics.items()
        ],
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return versioned(value, 1 if server_version >= FLEXIBLE_RECORDS else 0)


def read_record(key: bytes, value: bytes | None) -> TransactionEntry | None:
    """What a record says; None where its key or value is of a version that Kafka skips too."""
    if version_of(key, "key") != _KEY_VERSION:
        return None
    transactional_id = body_of(TransactionLogKey, key).transactional_id
    if value is None:
        return TransactionEntry(transactional_id, None)
    if version_of(value, "value") not in _VALUE_VERSIONS:
        return None
    return TransactionEntry(transactional_id, _metadata(body_of(TransactionLogValue, value)))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def _metadata(value: TransactionLogValue) -> TransactionMetadata:
    try:
        state = TxnState(value.transaction_status)
    except ValueError as error:
        raise CorruptRecord(f"no transaction has state {value.transaction_status}") from error
    return TransactionMetadata(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions={
            TopicPartition(each.topic, number): None
            for each in value.transaction_partitions or ()
            for number in each.partition_ids
        },
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
