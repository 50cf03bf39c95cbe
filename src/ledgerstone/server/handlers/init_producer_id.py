"""InitProducerId (22). Grade D.

Behaviour: without a transactional id, a fresh producer id with epoch 0, whatever id the request
names: as in Kafka, an idempotent producer raises its epoch by itself, and a new id is what it comes
for. With one, the coordinator gives the id's producer its next epoch, aborts the transaction that
another producer left open, and shuts that producer out. An id without an epoch, or the other way
round, is INVALID_REQUEST. With an error both are -1. The rules are the coordinator's:
coordinator/transactions/README.md.
Versions: 0-5; below 4 PRODUCER_FENCED is INVALID_PRODUCER_EPOCH.
"""

from functools import partial
from typing import Final

from ledgerstone.coordinator.transactions.turn import Decided
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request
from ledgerstone.server.transactions.fencing import as_understood
from ledgerstone.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_FIRST_VERSION_WITH_FENCED: Final = 4


def handle(broker: Broker, request: Request, message: InitProducerIdRequest) -> Answer:
    has_id = message.producer_id != NO_PRODUCER_ID
    has_epoch = message.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch:
        return InitProducerIdResponse(
            error_code=ErrorCode.INVALID_REQUEST, producer_epoch=NO_PRODUCER_EPOCH
        )
    answer = partial(_answer, broker, request)
    if message.transactional_id is None:
        broker.producer_ids.draw(lambda producer_id: answer(_drawn(producer_id)))
        return ANSWERED_LATER
    expected = (message.producer_id, message.producer_epoch) if has_id else None
    broker.transactions.init_producer_id(
        message.transactional_id, message.transaction_timeout_ms, expected, answer
    )
    return ANSWERED_LATER


def _drawn(producer_id: int | None) -> Decided:
    if producer_id is None:
        # As Kafka says while it has no block: clients repeat the request.
        return Decided(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return Decided(ErrorCode.NONE, producer_id, 0)


def _answer(broker: Broker, request: Request, decided: Decided) -> None:
    response = InitProducerIdResponse(
        error_code=as_understood(decided.error_code, request, _FIRST_VERSION_WITH_FENCED),
        producer_id=decided.producer_id,
        producer_epoch=decided.producer_epoch,
    )
    broker.answer(request, response)
