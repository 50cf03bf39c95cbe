"""EndQuorumEpoch (54). Grade D.

Behaviour: a leader leaves; the first of its successors asks for votes at once.
Versions: 0-1.
"""

from ledgerstone.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.quorum_request import ask_replica
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: EndQuorumEpochRequest) -> Answer:
    return ask_replica(broker, request, message)
