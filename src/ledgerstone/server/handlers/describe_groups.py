"""DescribeGroups (15). Grade D.

Behaviour: members and state of each group asked for, once; an unknown one is Dead.
Each group is asked of its own shard; the answer keeps the order of the request.
Versions: 0-6.
"""

from dataclasses import replace

from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DescribeGroupsRequest) -> Answer:
    found: dict[str, DescribeGroupsGroup] = {}
    for number, group_ids in broker.groups.by_shard(broker, message.groups).items():
        some = replace(message, groups=group_ids)
        found |= {each.group_id: each for each in _ask(broker, request, number, some).groups}
    return DescribeGroupsResponse(groups=[found[each] for each in dict.fromkeys(message.groups)])


def _ask(
    broker: Broker, request: Request, number: int, message: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    answer = broker.groups.call_one_of_many(
        broker,
        request,
        number,
        message,
        lambda shard, context, now: shard.handle_describe_groups(message, context, now),
    )
    assert isinstance(answer, DescribeGroupsResponse)
    return answer
