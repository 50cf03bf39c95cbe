"""AlterConfigs (33). Grade D.

Behaviour: replaces all settings of a resource. Clients should prefer IncrementalAlterConfigs.
The rules are the controller's: metadata/README.md.
Versions: 0-2.
"""

from ledgerstone.protocol.messages.alter_configs import AlterConfigsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: AlterConfigsRequest) -> Answer:
    return ask_controller(broker, request, message)
