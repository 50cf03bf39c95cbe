"""ListTransactions (66). Grade D.

Behaviour: none, because nobody is given a transaction here. State names that Kafka does not have
are named in the answer.
Versions: 0-2.
"""

from typing import Final

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
    unknown = [name for name in dict.fromkeys(message.state_filters) if name not in _STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown)
