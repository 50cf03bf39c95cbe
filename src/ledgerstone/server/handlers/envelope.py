"""Envelope (58). Grade D.

Behaviour: a broker forwards a client's request. It is served in the client's name, and its answer
goes back in an envelope. An unreadable principal is PRINCIPAL_DESERIALIZATION_FAILURE; a request
that is not to be forwarded, or cannot be read, INVALID_REQUEST.
Versions: 0.
"""

from ledgerstone.errors import KafkaError
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.envelope import EnvelopeRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.enveloping import opened, refused
from ledgerstone.server.request import Answer, Later, Request


def handle(broker: Broker, request: Request, message: EnvelopeRequest) -> Answer:
    try:
        inner, asked = opened(request, message, broker.controller_handled)
    except KafkaError as error:
        return refused(error)
    answer = broker.dispatch(broker, inner, asked)
    if isinstance(answer, Later):
        return answer
    # What the controller is asked is never parked, and always answered.
    assert isinstance(answer, ApiMessage), answer
    return inner.wrapped(answer)
