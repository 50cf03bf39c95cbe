"""What handlers do with a request that the controller decides about. Grade D.

On a broker's listener it is forwarded to the active controller, wherever that is. On a controller
listener the asker must find the active one: any other node answers NOT_CONTROLLER.
"""

from functools import partial

from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def ask_controller(
    broker: Broker, request: Request, message: ApiMessage, *, by_broker: bool = False
) -> Answer:
    broker.controller_link.ask(
        message, partial(broker.answer, request), by_broker=by_broker, client=request
    )
    return ANSWERED_LATER
