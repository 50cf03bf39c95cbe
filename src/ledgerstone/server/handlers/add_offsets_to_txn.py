"""AddOffsetsToTxn (25). Grade D.

Behaviour: adds the partition of __consumer_offsets that has the group's offsets to the transaction.
Clients of transactions of version 2 do without: TxnOffsetCommit adds it.
Versions: 0-4; below 2 PRODUCER_FENCED is INVALID_PRODUCER_EPOCH.
"""

from typing import Final

from ledgerstone.coordinator.transactions.metadata import CLASSIC
from ledgerstone.coordinator.transactions.turn import Decided, ProducerRef
from ledgerstone.errors import CoordinatorNotAvailable
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request
from ledgerstone.server.transactions.fencing import as_understood
from ledgerstone.types import TopicPartition

_FIRST_VERSION_WITH_FENCED: Final = 2


def handle(broker: Broker, request: Request, message: AddOffsetsToTxnRequest) -> Answer:
    try:
        number = broker.groups.number_for(message.group_id)
    except CoordinatorNotAvailable as error:
        return AddOffsetsToTxnResponse(error_code=error.code)

    def decided(answer: Decided) -> None:
        code = as_understood(answer.error_code, request, _FIRST_VERSION_WITH_FENCED)
        broker.answer(request, AddOffsetsToTxnResponse(error_code=code))

    producer = ProducerRef(message.transactional_id, message.producer_id, message.producer_epoch)
    offsets = TopicPartition(CONSUMER_OFFSETS, number)
    broker.transactions.add(producer, [offsets], CLASSIC, decided)
    return ANSWERED_LATER
