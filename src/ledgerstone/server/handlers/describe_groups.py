"""DescribeGroups (15). Grade D.

Behaviour: members and state of each group asked for, once; an unknown one is Dead.
Each group is asked of its own shard; the answer keeps the order of the request.
Versions: 0-6.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from ledgerstone.protocol.message import ApiMessage, replace
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.groups.agent import Call, ShardPart
from ledgerstone.server.request import Answer, Request

# Bits are the codes of ACL operations: read, delete, describe, describe and alter configs.
ALL_GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))


def handle(broker: Broker, request: Request, message: DescribeGroupsRequest) -> Answer:
    parts = []
    for number, group_ids in broker.groups.by_shard(message.groups).items():
        some = replace(message, groups=group_ids)
        parts.append(ShardPart(number, some, _call(some)))
    return broker.groups.ask_shards(request, parts, partial(_combined, message))


def _call(message: DescribeGroupsRequest) -> Call:
    return lambda shard, context, now: shard.handle_describe_groups(message, context, now)


def _combined(
    message: DescribeGroupsRequest, answers: Sequence[ApiMessage]
) -> DescribeGroupsResponse:
    found: dict[str, DescribeGroupsGroup] = {}
    for answer in answers:
        assert isinstance(answer, DescribeGroupsResponse)
        found |= {each.group_id: each for each in answer.groups}
    groups = [found[each] for each in dict.fromkeys(message.groups)]
    if message.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = ALL_GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)
