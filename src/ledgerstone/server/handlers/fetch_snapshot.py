"""FetchSnapshot (59). Grade D.

Behaviour: a leader hands out a part of a snapshot, as large as asked for and as
controller.quorum.fetch.snapshot.max.bytes allows.
Versions: 0-1.
"""

from ledgerstone.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.quorum_request import ask_replica
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: FetchSnapshotRequest) -> Answer:
    return ask_replica(broker, request, message)
