"""DescribeTransactions, api key 65. Pure.

Made from schemas/describe_transactions.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeTransactionsRequest(ApiMessage):
    api_key: ClassVar[int] = 65
    name: ClassVar[str] = "DescribeTransactions"

    transactional_ids: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeTransactionsTopic(Struct):
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeTransactionsTransactionState(Struct):
    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: list[DescribeTransactionsTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeTransactionsResponse(ApiMessage):
    api_key: ClassVar[int] = 65
    name: ClassVar[str] = "DescribeTransactions"

    throttle_time_ms: int = 0
    transaction_states: list[DescribeTransactionsTransactionState] = field(default_factory=list)


SCHEMA: Final = """\
api 65 DescribeTransactions
request v0-0 flexible 0+
    transactional_ids: [str]
response v0-0 flexible 0+
    throttle_time_ms: i32
    transaction_states: [DescribeTransactionsTransactionState]
        error_code: i16
        transactional_id: str
        transaction_state: str
        transaction_timeout_ms: i32
        transaction_start_time_ms: i64
        producer_id: i64
        producer_epoch: i16
        topics: [DescribeTransactionsTopic]
            topic: str
            partitions: [i32]
"""
