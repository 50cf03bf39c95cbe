"""SaslAuthenticate (36). Grade D.

Behaviour: one step of a login. SASL_AUTHENTICATION_FAILED comes after a delay, and the connection
is closed after it; its text does not say whether the user exists. Out of place:
ILLEGAL_SASL_STATE.
Versions: 0-2.
"""

from ledgerstone.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: SaslAuthenticateRequest) -> Answer:
    return broker.logins.authenticate(request, message)
