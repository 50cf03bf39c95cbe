"""Vote (52). Grade D.

Behaviour: a replica of the metadata quorum grants its vote, or says which leader it knows.
Versions: 0-2.
"""

from ledgerstone.protocol.messages.vote import VoteRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.quorum_request import ask_replica
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: VoteRequest) -> Answer:
    return ask_replica(broker, request, message)
