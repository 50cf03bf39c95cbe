"""SaslHandshake (17). Grade D.

Behaviour: ILLEGAL_SASL_STATE and no mechanisms, as on every listener of Kafka that does not
authenticate. Clients that were told to log in fail with it at once, and say why.
Versions: 0-1.
"""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: SaslHandshakeRequest) -> Answer:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
