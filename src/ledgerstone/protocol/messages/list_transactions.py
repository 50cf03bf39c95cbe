"""ListTransactions, api key 66. Pure.

Made from schemas/list_transactions.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ListTransactionsRequest(ApiMessage):
    api_key: ClassVar[int] = 66
    name: ClassVar[str] = "ListTransactions"

    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[int] = field(default_factory=list)
    duration_filter: int = -1
    transactional_id_pattern: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class ListTransactionsTransactionState(Struct):
    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ListTransactionsResponse(ApiMessage):
    api_key: ClassVar[int] = 66
    name: ClassVar[str] = "ListTransactions"

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[ListTransactionsTransactionState] = field(default_factory=list)


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
