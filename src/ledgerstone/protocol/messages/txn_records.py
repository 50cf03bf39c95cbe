"""Txn records. Pure.

Made from schemas/txn_records.txt by tools/codegen.py.
"""

from typing import Final

from ledgerstone.protocol.message import ABSENT, Message, Struct


class TransactionLogKey(Message):
    __slots__ = ("transactional_id",)

    def __init__(
        self,
        transactional_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id


class TransactionLogTransactionPartition(Struct):
    __slots__ = (
        "topic",
        "partition_ids",
    )

    def __init__(
        self,
        topic: str = "",
        partition_ids: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partition_ids = [] if partition_ids is ABSENT else partition_ids


class TransactionLogValue(Message):
    __slots__ = (
        "producer_id",
        "previous_producer_id",
        "next_producer_id",
        "producer_epoch",
        "transaction_timeout_ms",
        "transaction_status",
        "transaction_partitions",
        "transaction_last_update_timestamp_ms",
        "transaction_start_timestamp_ms",
        "client_transaction_version",
        "next_producer_epoch",
    )

    def __init__(
        self,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: list[TransactionLogTransactionPartition] | None = None,
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
        next_producer_epoch: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version
        self.next_producer_epoch = next_producer_epoch


SCHEMA: Final = """\
key TransactionLogKey v0-0 rigid
    transactional_id: str
value TransactionLogValue v0-1 flexible 1+
    producer_id: i64
    previous_producer_id: i64 #0 = -1 @1+
    next_producer_id: i64 #1 = -1 @1+
    producer_epoch: i16
    transaction_timeout_ms: i32
    transaction_status: i8
    transaction_partitions: [TransactionLogTransactionPartition]?
        topic: str
        partition_ids: [i32]
    transaction_last_update_timestamp_ms: i64
    transaction_start_timestamp_ms: i64
    client_transaction_version: i16 #2 @1+
    next_producer_epoch: i16 #3 = -1 @1+
"""
