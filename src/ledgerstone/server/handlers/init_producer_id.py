"""InitProducerId (22). Grade D.

Behaviour: a fresh producer id with epoch 0 for an idempotent producer; ids are drawn from the
controller in blocks, so that a restart never hands one out twice. Whatever id the request names: as
in Kafka, an idempotent producer raises its epoch by itself, and a new id is what it comes for. An
id without an epoch, or the other way round, is INVALID_REQUEST. With an error both are -1.
Versions: 0-5.
Differs from Kafka: a transactional id gets UNSUPPORTED_VERSION. There are no transactions yet, and
FindCoordinator has said so before; librdkafka would repeat this code until its time-out.
"""

from functools import partial

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request
from ledgerstone.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


def handle(broker: Broker, request: Request, message: InitProducerIdRequest) -> Answer:
    if message.transactional_id is not None:
        empty = message.transactional_id == ""
        code = ErrorCode.INVALID_REQUEST if empty else ErrorCode.UNSUPPORTED_VERSION
        return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
    has_id = message.producer_id != NO_PRODUCER_ID
    has_epoch = message.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch:
        return InitProducerIdResponse(
            error_code=ErrorCode.INVALID_REQUEST, producer_epoch=NO_PRODUCER_EPOCH
        )
    broker.producer_ids.draw(partial(_drawn, broker, request))
    return ANSWERED_LATER


def _drawn(broker: Broker, request: Request, producer_id: int | None) -> None:
    if producer_id is None:
        # As Kafka says while it has no block: clients repeat the request.
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        refusal = InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
        broker.answer(request, refusal)
        return
    broker.answer(request, InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))
