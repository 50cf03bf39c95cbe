"""UnregisterBroker (64). Grade D.

Behaviour: forgets a broker that will not come back. Partitions keep its id among their replicas.
Versions: 0.
"""

from ledgerstone.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: UnregisterBrokerRequest) -> Answer:
    return ask_controller(broker, request, message)
