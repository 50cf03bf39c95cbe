"""DescribeTransactions, api key 65. Pure.

Made from schemas/describe_transactions.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DescribeTransactionsRequest(ApiMessage):
    api_key: ClassVar[int] = 65
    name: ClassVar[str] = "DescribeTransactions"

    __slots__ = ("transactional_ids",)

    def __init__(
        self,
        transactional_ids: list[str] = ABSENT,
    ) -> None:
        self.transactional_ids = [] if transactional_ids is ABSENT else transactional_ids


class DescribeTransactionsTopic(Struct):
    __slots__ = (
        "topic",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions


class DescribeTransactionsTransactionState(Struct):
    __slots__ = (
        "error_code",
        "transactional_id",
        "transaction_state",
        "transaction_timeout_ms",
        "transaction_start_time_ms",
        "producer_id",
        "producer_epoch",
        "topics",
    )

    def __init__(
        self,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[DescribeTransactionsTopic] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = [] if topics is ABSENT else topics


class DescribeTransactionsResponse(ApiMessage):
    api_key: ClassVar[int] = 65
    name: ClassVar[str] = "DescribeTransactions"

    __slots__ = (
        "throttle_time_ms",
        "transaction_states",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        transaction_states: list[DescribeTransactionsTransactionState] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = [] if transaction_states is ABSENT else transaction_states


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
