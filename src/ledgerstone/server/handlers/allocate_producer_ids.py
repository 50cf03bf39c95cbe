"""AllocateProducerIds (67). Grade D.

Behaviour: a broker gets a block of producer ids that no other broker ever gets.
Versions: 0.
"""

from ledgerstone.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: AllocateProducerIdsRequest) -> Answer:
    return ask_controller(broker, request, message)
