"""What handlers do with requests of the metadata quorum. Grade D.

On a controller listener this replica answers for itself, whatever it is. On a broker's listener a
request for the leader is forwarded, in an Envelope, if another node leads.
"""

from functools import partial

from ledgerstone.errors import InvalidRequest
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.raft.wire import translation
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def ask_replica(broker: Broker, request: Request, message: ApiMessage) -> Answer:
    """Answered now, or later: a Fetch waits for news, a change of voters for its commit."""
    try:
        broker.quorum.ask(message, partial(broker.answer, request))
    except InvalidRequest:
        return translation.refusal(message)
    # A Fetch that waits has a deadline, and may have moved one of the replica's own.
    broker.may_be_due_sooner = True
    return ANSWERED_LATER


def ask_leader(broker: Broker, request: Request, message: ApiMessage) -> Answer:
    link = broker.controller_link
    leads_here = broker.quorum.leader_id == broker.config.node_id
    if leads_here or request.session.is_controller_listener or link.forwarder is None:
        return ask_replica(broker, request, message)
    link.forwarder.forward(message, partial(broker.answer, request), client=request)
    return ANSWERED_LATER
