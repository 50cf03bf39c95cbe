"""DeleteTopics (20). Grade D.

Behaviour: by name or id. Directories are renamed aside at once and removed later
(file.delete.delay.ms).
The rules are the controller's: metadata/README.md.
Versions: 1-6.
"""

from functools import partial

from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def handle(broker: Broker, request: Request, message: DeleteTopicsRequest) -> Answer:
    broker.controller_link.ask(message, partial(broker.answer, request), client=request)
    return ANSWERED_LATER
