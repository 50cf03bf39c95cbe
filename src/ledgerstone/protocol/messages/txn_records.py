"""Txn records. Pure.

Made from schemas/txn_records.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import Final

from ledgerstone.protocol.message import Message, Struct


@dataclass(slots=True, eq=False, repr=False)
class TransactionLogKey(Message):
    transactional_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class TransactionLogTransactionPartition(Struct):
    topic: str = ""
    partition_ids: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class TransactionLogValue(Message):
    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: list[TransactionLogTransactionPartition] | None = None
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0


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
"""
