"""ListTransactions, api key 66. Pure.

Made from schemas/list_transactions.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class ListTransactionsRequest(ApiMessage):
    api_key: ClassVar[int] = 66
    name: ClassVar[str] = "ListTransactions"

    __slots__ = (
        "state_filters",
        "producer_id_filters",
        "duration_filter",
        "transactional_id_pattern",
    )

    def __init__(
        self,
        state_filters: list[str] = ABSENT,
        producer_id_filters: list[int] = ABSENT,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = [] if state_filters is ABSENT else state_filters
        self.producer_id_filters = [] if producer_id_filters is ABSENT else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class ListTransactionsTransactionState(Struct):
    __slots__ = (
        "transactional_id",
        "producer_id",
        "transaction_state",
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(ApiMessage):
    api_key: ClassVar[int] = 66
    name: ClassVar[str] = "ListTransactions"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "unknown_state_filters",
        "transaction_states",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = ABSENT,
        transaction_states: list[ListTransactionsTransactionState] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = (
            [] if unknown_state_filters is ABSENT else unknown_state_filters
        )
        self.transaction_states = [] if transaction_states is ABSENT else transaction_states


SCHEMA: Final = """\
api 66 ListTransactions
request v0-2 flexible 0+
    state_filters: [str]
    producer_id_filters: [i64]
    duration_filter: i64 = -1 @1+
    transactional_id_pattern: str? = null @2+
response v0-2 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    unknown_state_filters: [str]
    transaction_states: [ListTransactionsTransactionState]
        transactional_id: str
        producer_id: i64
        transaction_state: str
"""
