"""AddRaftVoter (80). Grade D.

Behaviour: the leader makes an observer that has caught up a voter.
Versions: 0-1.
"""

from ledgerstone.protocol.messages.add_raft_voter import AddRaftVoterRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.quorum_request import ask_leader
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: AddRaftVoterRequest) -> Answer:
    return ask_leader(broker, request, message)
