"""CreatePartitions (37). Grade D.

Behaviour: raises the number of partitions of a topic; it never falls.
The rules are the controller's: metadata/README.md.
Versions: 0-3.
"""

from functools import partial

from ledgerstone.protocol.messages.create_partitions import CreatePartitionsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def handle(broker: Broker, request: Request, message: CreatePartitionsRequest) -> Answer:
    broker.controller_link.ask(message, partial(broker.answer, request), client=request)
    return ANSWERED_LATER
