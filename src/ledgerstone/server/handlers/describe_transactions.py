"""DescribeTransactions (65). Grade D.

Behaviour: what the coordinator knows of each id; TRANSACTIONAL_ID_NOT_FOUND for one it does not
know, INVALID_REQUEST for the empty one. While a transaction ends, its partitions are those that
still wait for their marker. Of more than a hundred ids, each is answered once.
Versions: 0.
"""

from typing import Final

from ledgerstone.coordinator.transactions.metadata import PREPARED, Transaction
from ledgerstone.coordinator.transactions.transaction_records import by_topic
from ledgerstone.errors import KafkaError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTopic,
    DescribeTransactionsTransactionState,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.types import NO_PRODUCER_EPOCH

# Of so many names, the same one may be there again, and is answered again, as in Kafka.
_MOST_REPEATED: Final = 100


def handle(broker: Broker, request: Request, message: DescribeTransactionsRequest) -> Answer:
    ids = message.transactional_ids
    if len(ids) > _MOST_REPEATED:
        # To say all partitions of one again and again would cost us more than the asker.
        ids = list(dict.fromkeys(ids))
    states = [_describe(broker, each) for each in ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(broker: Broker, transactional_id: str) -> DescribeTransactionsTransactionState:
    answer = DescribeTransactionsTransactionState(transactional_id=transactional_id)
    if not transactional_id:
        answer.error_code = ErrorCode.INVALID_REQUEST
        return answer
    transactions = broker.transactions
    try:
        number = transactions.topic.number_for(transactional_id)
        found = transactions.shards.loaded(number).shard.table.find(transactional_id)
    except KafkaError as error:
        answer.error_code = error.code
        return answer
    if found is None or found.metadata.producer_epoch == NO_PRODUCER_EPOCH:
        answer.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return answer
    _fill(answer, found)
    return answer


def _fill(answer: DescribeTransactionsTransactionState, found: Transaction) -> None:
    metadata = found.metadata
    answer.transaction_state = metadata.state.shown
    answer.transaction_timeout_ms = metadata.timeout_ms
    answer.transaction_start_time_ms = metadata.start_ms
    answer.producer_id = metadata.producer_id
    answer.producer_epoch = metadata.producer_epoch
    partitions = found.unmarked if metadata.state in PREPARED else metadata.partitions
    answer.topics = [
        DescribeTransactionsTopic(topic=topic, partitions=numbers)
        for topic, numbers in by_topic(partitions).items()
    ]
