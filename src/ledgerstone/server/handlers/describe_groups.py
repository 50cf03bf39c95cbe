"""DescribeGroups (15). Grade D.

Behaviour: members and state of each group asked for, once; an unknown one is Dead.
Each group is asked of its own shard; the answer keeps the order of the request.
Versions: 0-6.
"""

from typing import Final

from ledgerstone.protocol.message import replace
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request

# Bits are the codes of ACL operations: read, delete, describe, describe and alter configs.
ALL_GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))


def handle(broker: Broker, request: Request, message: DescribeGroupsRequest) -> Answer:
    found: dict[str, DescribeGroupsGroup] = {}
    for number, group_ids in broker.groups.by_shard(broker, message.groups).items():
        some = replace(message, groups=group_ids)
        found |= {each.group_id: each for each in _ask(broker, request, number, some).groups}
    groups = [found[each] for each in dict.fromkeys(message.groups)]
    if message.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = ALL_GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


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
