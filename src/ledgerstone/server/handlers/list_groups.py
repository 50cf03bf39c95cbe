"""ListGroups (16). Grade D.

Behaviour: every group of every shard that passes the filters.
Versions: 0-5.
"""

from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: ListGroupsRequest) -> Answer:
    response = ListGroupsResponse()
    for number in broker.groups.shard_numbers():
        answer = broker.groups.call(
            broker,
            request,
            number,
            lambda shard, context, now: shard.handle_list_groups(message, context, now),
        )
        assert isinstance(answer, ListGroupsResponse)
        response.groups += answer.groups
    return response
