"""CreateTopics (19). Grade D.

Behaviour: topics are created one by one; each has its own error. validate_only changes nothing.
The rules are the controller's: metadata/README.md.
Versions: 2-7.
"""

from functools import partial

from ledgerstone.protocol.messages.create_topics import CreateTopicsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def handle(broker: Broker, request: Request, message: CreateTopicsRequest) -> Answer:
    broker.controller_link.ask(message, partial(broker.answer, request), client=request)
    return ANSWERED_LATER
