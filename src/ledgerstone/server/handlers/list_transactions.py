"""ListTransactions (66). Grade D.

Behaviour: the transactional ids of every shard here that pass the filters. State names that Kafka
does not have are named in the answer, and match nothing; a pattern that is none, or takes
too much work, is INVALID_REGULAR_EXPRESSION. COORDINATOR_LOAD_IN_PROGRESS while a shard loads.
Versions: 0-2.
"""

from ledgerstone.coordinator.pattern_syntax import PatternError
from ledgerstone.coordinator.safe_pattern import SafePattern
from ledgerstone.coordinator.transactions.metadata import BY_NAME, Transaction
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: ListTransactionsRequest) -> Answer:
    shards = broker.transactions.shards
    if not shards.are_loaded:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    unknown = [name for name in dict.fromkeys(message.state_filters) if name not in BY_NAME]
    now_ms = broker.clock.now_ms()
    # A request has room for a million of each.
    states, producer_ids = frozenset(message.state_filters), frozenset(message.producer_id_filters)
    wanted = [
        each
        for table in shards.tables()
        for each in table.known()
        if (not producer_ids or each.metadata.producer_id in producer_ids)
        and (not states or each.metadata.state.shown in states)
        and _is_long(each, message.duration_filter, now_ms)
    ]
    if message.transactional_id_pattern:
        try:
            pattern = SafePattern(message.transactional_id_pattern)
            wanted = [each for each in wanted if pattern.matches(each.transactional_id)]
        except PatternError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    found = [
        ListTransactionsTransactionState(
            transactional_id=each.transactional_id,
            producer_id=each.metadata.producer_id,
            transaction_state=each.metadata.state.shown,
        )
        for each in wanted
    ]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _is_long(transaction: Transaction, longest_ms: int, now_ms: int) -> bool:
    return longest_ms < 0 or now_ms - transaction.metadata.start_ms > longest_ms
