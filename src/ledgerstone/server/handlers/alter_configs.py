"""AlterConfigs (33). Grade D.

Behaviour: replaces all settings of a resource. Clients should prefer IncrementalAlterConfigs.
The rules are the controller's: metadata/README.md.
Versions: 0-2.
"""

from functools import partial

from ledgerstone.protocol.messages.alter_configs import AlterConfigsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def handle(broker: Broker, request: Request, message: AlterConfigsRequest) -> Answer:
    broker.controller_link.ask(message, partial(broker.answer, request), client=request)
    return ANSWERED_LATER
