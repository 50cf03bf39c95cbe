"""SaslHandshake (17). Grade D.

Behaviour: chooses the mechanism of a login. Version 0: its tokens follow without Kafka's headers. A
mechanism that the listener does not offer: UNSUPPORTED_SASL_MECHANISM with those that it does, and
the connection is closed. After a login: another one begins, if logins expire here; else,
and on every listener that asks for no login, ILLEGAL_SASL_STATE.
Versions: 0-1. Never more: librdkafka takes the newest it is offered.
"""

from ledgerstone.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: SaslHandshakeRequest) -> Answer:
    return broker.logins.handshake(request, message)
