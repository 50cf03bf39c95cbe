"""BrokerRegistration (62). Grade D.

Behaviour: a broker enters the cluster, fenced, and gets its epoch. The rules are the controller's:
metadata/README.md.
Versions: 0-4.
"""

from ledgerstone.protocol.messages.broker_registration import BrokerRegistrationRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: BrokerRegistrationRequest) -> Answer:
    return ask_controller(broker, request, message)
