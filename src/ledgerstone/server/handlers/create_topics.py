"""CreateTopics (19). Grade D.

Behaviour: topics are created one by one; each has its own error. validate_only changes nothing.
The rules are the controller's: metadata/README.md.
Versions: 2-7.
"""

from ledgerstone.protocol.messages.create_topics import CreateTopicsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.enveloping import is_enveloped
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: CreateTopicsRequest) -> Answer:
    # Brokers ask a controller directly; what they forward for a client comes in an envelope.
    is_by_broker = request.session.is_controller_listener and not is_enveloped(request)
    return ask_controller(broker, request, message, by_broker=is_by_broker)
