"""DeleteGroups (42). Grade D.

Behaviour: deletes groups without members, and their offsets; each is answered once.
Each group is asked of its own shard; the answer keeps the order of the request.
Versions: 0-2.
"""

from collections.abc import Sequence
from functools import partial

from ledgerstone.protocol.message import ApiMessage, replace
from ledgerstone.protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResult,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.groups.agent import Call, ShardPart
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DeleteGroupsRequest) -> Answer:
    parts = []
    for number, group_ids in broker.groups.by_shard(message.groups_names).items():
        some = replace(message, groups_names=group_ids)
        parts.append(ShardPart(number, some, _call(some)))
    names = list(dict.fromkeys(message.groups_names))
    return broker.groups.ask_shards(request, parts, partial(_combined, names))


def _call(message: DeleteGroupsRequest) -> Call:
    return lambda shard, context, now: shard.handle_delete_groups(message, context, now)


def _combined(names: list[str], answers: Sequence[ApiMessage]) -> DeleteGroupsResponse:
    found: dict[str, DeleteGroupsResult] = {}
    for answer in answers:
        assert isinstance(answer, DeleteGroupsResponse)
        found |= {each.group_id: each for each in answer.results}
    return DeleteGroupsResponse(results=[found[each] for each in names])
