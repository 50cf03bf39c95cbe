"""AlterUserScramCredentials (51). Grade D.

Behaviour: sets and removes what users of SCRAM log in with. The rules are the controller's:
metadata/README.md.
Versions: 0.
"""

from ledgerstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: AlterUserScramCredentialsRequest) -> Answer:
    return ask_controller(broker, request, message)
