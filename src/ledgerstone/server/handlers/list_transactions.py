"""ListTransactions (66). Grade D.

Behaviour: the transactional ids of every shard here that pass the filters. State names that Kafka
does not have are named in the answer, and match nothing; a pattern that is none is
INVALID_REGULAR_EXPRESSION. COORDINATOR_LOAD_IN_PROGRESS while a shard loads.
Versions: 0-2.
"""

import re

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
    if not all(each.is_loaded for each in shards.values()):
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        pattern = re.compile(message.transactional_id_pattern or "(?s:.*)")
    except (re.error, RecursionError, OverflowError):
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    unknown = [name for name in dict.fromkeys(message.state_filters) if name not in BY_NAME]
    now_ms = broker.clock.now_ms()
    found = [
        ListTransactionsTransactionState(
            transactional_id=each.transactional_id,
            producer_id=each.metadata.producer_id,
            transaction_state=each.metadata.state.shown,
        )
        for _, hosted in sorted(shards.items())
        for each in hosted.shard.table
        if _is_wanted(each, message, now_ms) and pattern.fullmatch(each.transactional_id)
    ]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _is_wanted(transaction: Transaction, message: ListTransactionsRequest, now_ms: int) -> bool:
    metadata = transaction.metadata
    if message.producer_id_filters and metadata.producer_id not in message.producer_id_filters:
        return False
    if message.state_filters and metadata.state.shown not in message.state_filters:
        return False
    longest_ms = message.duration_filter
    return longest_ms < 0 or now_ms - metadata.start_ms > longest_ms
