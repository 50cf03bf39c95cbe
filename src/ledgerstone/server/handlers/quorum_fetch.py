"""Fetch (1) on a controller listener. Grade D.

Behaviour: replicas of the metadata quorum fetch from its leader; what they ask for is what they
have. Uncommitted records are served, too. Waits for news as long as the request says, but at most
five seconds. Any other partition is refused as a whole, with INVALID_REQUEST.
Versions: 4-18.
"""

from ledgerstone.protocol.messages.fetch import FetchRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.quorum_request import ask_replica
from ledgerstone.server.request import Answer, Request

# A replica waits half a second. What waits costs memory, also after its connection has gone.
_MAX_WAIT_MS = 5_000


def handle(broker: Broker, request: Request, message: FetchRequest) -> Answer:
    message.max_wait_ms = min(message.max_wait_ms, _MAX_WAIT_MS)
    return ask_replica(broker, request, message)
