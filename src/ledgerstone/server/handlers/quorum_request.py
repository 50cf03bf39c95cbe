"""Requests of one node of the metadata quorum to another: Vote (52), BeginQuorumEpoch (53),
EndQuorumEpoch (54), DescribeQuorum (55), FetchSnapshot (59), AddRaftVoter (80), RemoveRaftVoter
(81), UpdateRaftVoter (82), and Fetch (1) of the metadata log. Grade D.

Behaviour: the replica decides; an answer may wait for a disk, for records or for a commit. A Fetch
of any other partition is refused: controllers hold no data.
Versions: all.
"""

from functools import partial

from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def handle(broker: Broker, request: Request, message: ApiMessage) -> Answer:
    broker.quorum.ask(message, partial(broker.answer, request))
    return ANSWERED_LATER
