"""IncrementalAlterConfigs (44). Grade D.

Behaviour: set, delete, append and subtract single settings of topics and brokers.
The rules are the controller's: metadata/README.md.
Versions: 0-1.
"""

from ledgerstone.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: IncrementalAlterConfigsRequest) -> Answer:
    return ask_controller(broker, request, message)
