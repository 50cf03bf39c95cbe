"""DescribeQuorum (55). Grade D.

Behaviour: the leader of the metadata quorum says what it knows of its replicas. A broker forwards
the request to it; on a controller listener any other node answers NOT_LEADER_OR_FOLLOWER. A request
that is not about that one partition is refused partition by partition, and without nodes.
Versions: 0-2.
"""

from ledgerstone.protocol.messages.describe_quorum import DescribeQuorumRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.quorum_request import ask_leader
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DescribeQuorumRequest) -> Answer:
    return ask_leader(broker, request, message)
