"""BeginQuorumEpoch (53). Grade D.

Behaviour: a leader says that its epoch has begun; the replica follows it.
Versions: 0-1.
"""

from ledgerstone.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.quorum_request import ask_replica
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: BeginQuorumEpochRequest) -> Answer:
    return ask_replica(broker, request, message)
