"""DescribeGroups (15). Grade D.

Behaviour: members and state of each group asked for; an unknown one is Dead.
Each group is asked of its own shard; the answer keeps the order of the request.
Versions: 0-6.
"""

from dataclasses import replace

from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DescribeGroupsRequest) -> Answer:
    response = DescribeGroupsResponse()
    for group_id in message.groups:
        one = replace(message, groups=[group_id])
        response.groups += _ask(broker, request, group_id, one).groups
    return response


def _ask(
    broker: Broker, request: Request, group_id: str, message: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    answer = broker.groups.call(
        broker,
        request,
        broker.groups.number_for(broker, group_id),
        lambda shard, context, now: shard.handle_describe_groups(message, context, now),
    )
    assert isinstance(answer, DescribeGroupsResponse)
    return answer
