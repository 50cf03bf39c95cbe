"""AddPartitionsToTxn (24). Grade D.

Behaviour: the partitions are in the producer's transaction once its record is committed. If one
partition does not exist or is an internal one, none is added, and the others get
OPERATION_NOT_ATTEMPTED. From version 4 on the request is a broker's, names several transactions,
and may only verify. The rules are the coordinator's: coordinator/transactions/README.md.
Versions: 0-5; below 2 PRODUCER_FENCED is INVALID_PRODUCER_EPOCH.
"""

from typing import Final

from ledgerstone.coordinator.transactions.metadata import CLASSIC
from ledgerstone.coordinator.transactions.turn import Decided, ProducerRef
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request
from ledgerstone.server.transactions.adding import (
    partitions_of,
    refused_partitions,
    topic_results,
)
from ledgerstone.server.transactions.fencing import as_understood

_FIRST_VERSION_OF_BROKERS: Final = 4
_FIRST_VERSION_WITH_FENCED: Final = 2


def handle(broker: Broker, request: Request, message: AddPartitionsToTxnRequest) -> Answer:
    if request.api_version >= _FIRST_VERSION_OF_BROKERS:
        broker.transactions.add_partitions(
            message, lambda response: broker.answer(request, response)
        )
        return ANSWERED_LATER
    partitions = partitions_of(message.v3_and_below_topics)
    refused = refused_partitions(partitions, broker.image, by_client=True)
    if refused is not None:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topic_results(refused))

    def decided(answer: Decided) -> None:
        code = as_understood(answer.error_code, request, _FIRST_VERSION_WITH_FENCED)
        results = topic_results(dict.fromkeys(partitions, code))
        broker.answer(request, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))

    producer = ProducerRef(
        message.v3_and_below_transactional_id,
        message.v3_and_below_producer_id,
        message.v3_and_below_producer_epoch,
    )
    broker.transactions.add(producer, partitions, CLASSIC, decided)
    return ANSWERED_LATER
