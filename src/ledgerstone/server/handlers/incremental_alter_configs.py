"""IncrementalAlterConfigs (44). Grade D.

Behaviour: set, delete, append and subtract single settings of topics and brokers.
The rules are the controller's: metadata/README.md.
Versions: 0-1.
"""

from functools import partial

from ledgerstone.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def handle(broker: Broker, request: Request, message: IncrementalAlterConfigsRequest) -> Answer:
    broker.controller_link.ask(message, partial(broker.answer, request), client=request)
    return ANSWERED_LATER
