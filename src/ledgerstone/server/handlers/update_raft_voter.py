"""UpdateRaftVoter (82). Grade D.

Behaviour: a voter tells the leader its listeners and the versions it supports.
Versions: 0.
"""

from ledgerstone.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.quorum_request import ask_replica
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: UpdateRaftVoterRequest) -> Answer:
    return ask_replica(broker, request, message)
