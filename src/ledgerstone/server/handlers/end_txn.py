"""EndTxn (26). Grade D.

Behaviour: the result is decided once its record is committed; then it is answered, and markers are
written. On one broker they are written before it serves anybody else; Kafka writes them meanwhile.
From version 5 on the answer names the producer id and epoch of the next transaction. The rules are
the coordinator's: coordinator/transactions/README.md.
Versions: 0-5; below 2 PRODUCER_FENCED is INVALID_PRODUCER_EPOCH.
"""

from typing import Final

from ledgerstone.coordinator.transactions.metadata import CLASSIC, EPOCH_PER_TRANSACTION
from ledgerstone.coordinator.transactions.turn import Decided, ProducerRef
from ledgerstone.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request
from ledgerstone.server.transactions.fencing import as_understood

_FIRST_VERSION_WITH_FENCED: Final = 2
_FIRST_VERSION_WITH_EPOCHS: Final = 5


def handle(broker: Broker, request: Request, message: EndTxnRequest) -> Answer:
    def decided(answer: Decided) -> None:
        response = EndTxnResponse(
            error_code=as_understood(answer.error_code, request, _FIRST_VERSION_WITH_FENCED),
            producer_id=answer.producer_id,
            producer_epoch=answer.producer_epoch,
        )
        broker.answer(request, response)

    has_epochs = request.api_version >= _FIRST_VERSION_WITH_EPOCHS
    producer = ProducerRef(message.transactional_id, message.producer_id, message.producer_epoch)
    broker.transactions.end(
        producer,
        EPOCH_PER_TRANSACTION if has_epochs else CLASSIC,
        decided,
        commit=message.committed,
    )
    return ANSWERED_LATER
