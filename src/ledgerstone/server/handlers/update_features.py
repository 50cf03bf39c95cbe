"""UpdateFeatures (57). Grade D.

Behaviour: changes finalized levels of features, all of them or none.
Versions: 0-2.
"""

from ledgerstone.protocol.messages.update_features import UpdateFeaturesRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: UpdateFeaturesRequest) -> Answer:
    return ask_controller(broker, request, message)
