"""ElectLeaders (43). Grade D.

Behaviour: makes the preferred replica lead, or any live one if asked to be unclean.
The rules are the controller's: metadata/README.md.
Versions: 0-2.
"""

from functools import partial

from ledgerstone.protocol.messages.elect_leaders import ElectLeadersRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def handle(broker: Broker, request: Request, message: ElectLeadersRequest) -> Answer:
    broker.controller_link.ask(message, partial(broker.answer, request), client=request)
    return ANSWERED_LATER
