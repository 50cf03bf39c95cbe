"""DeleteTopics (20). Grade D.

Behaviour: by name or id. Directories are renamed aside at once and removed later
(file.delete.delay.ms).
The rules are the controller's: metadata/README.md.
Versions: 1-6.
"""

from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DeleteTopicsRequest) -> Answer:
    return ask_controller(broker, request, message)
