"""DescribeTransactions (65). Grade D.

Behaviour: TRANSACTIONAL_ID_NOT_FOUND for each id, because nobody is given a transaction here; no id
at all is INVALID_REQUEST.
Versions: 0.
"""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DescribeTransactionsRequest) -> Answer:
    return DescribeTransactionsResponse(
        transaction_states=[
            DescribeTransactionsTransactionState(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if each else ErrorCode.INVALID_REQUEST, each
            )
            for each in message.transactional_ids
        ]
    )
