"""IncrementalAlterConfigs (44). Grade D.

Behaviour: set, delete, append and subtract single settings of topics and brokers.
The rules are the controller's: metadata/README.md.
Versions: 0-1.
"""

from ledgerstone.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: IncrementalAlterConfigsRequest) -> Answer:
    decision = broker.controller.incremental_alter_configs(message)
    broker.commit_metadata(decision.records)
    return decision.response
