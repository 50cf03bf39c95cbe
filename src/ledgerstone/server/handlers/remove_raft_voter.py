"""RemoveRaftVoter (81). Grade D.

Behaviour: the leader removes a voter, which may be itself.
Versions: 0.
"""

from ledgerstone.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.quorum_request import ask_leader
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: RemoveRaftVoterRequest) -> Answer:
    return ask_leader(broker, request, message)
