"""ControllerRegistration (70). Grade D.

Behaviour: a controller tells the active one its listeners and the features it supports.
Versions: 0.
"""

from ledgerstone.protocol.messages.controller_registration import ControllerRegistrationRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: ControllerRegistrationRequest) -> Answer:
    return ask_controller(broker, request, message)
