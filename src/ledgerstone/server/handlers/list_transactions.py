"""ListTransactions (66). Grade D.

Behaviour: none, because nobody is given a transaction here. State names that Kafka does not have
are named in the answer; a pattern that is none is INVALID_REGULAR_EXPRESSION.
Versions: 0-2.
"""

import re
from typing import Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request

_STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
    "Dead", "PrepareEpochFence",
)  # fmt: skip


def handle(broker: Broker, request: Request, message: ListTransactionsRequest) -> Answer:
    if message.transactional_id_pattern is not None and not _is_pattern(message):
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    unknown = [name for name in dict.fromkeys(message.state_filters) if name not in _STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown)


def _is_pattern(message: ListTransactionsRequest) -> bool:
    """It is never matched against anything, so that Python's rules are close enough to RE2's."""
    try:
        re.compile(message.transactional_id_pattern or "")
    except (re.error, RecursionError, OverflowError):
        return False
    return True
