"""AlterClientQuotas (49). Grade D.

Behaviour: each entity has its own error; what is not refused is written in one batch.
The rules are the controller's: metadata/README.md.
Versions: 0-1.
"""

from ledgerstone.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: AlterClientQuotasRequest) -> Answer:
    return ask_controller(broker, request, message)
