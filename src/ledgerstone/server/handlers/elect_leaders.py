"""ElectLeaders (43). Grade D.

Behaviour: makes the preferred replica lead, or any live one if asked to be unclean.
The rules are the controller's: metadata/README.md.
Versions: 0-2.
"""

from ledgerstone.protocol.messages.elect_leaders import ElectLeadersRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: ElectLeadersRequest) -> Answer:
    return ask_controller(broker, request, message)
