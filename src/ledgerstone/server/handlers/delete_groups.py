"""DeleteGroups (42). Grade D.

Behaviour: deletes groups without members, and their offsets; each is answered once.
Each group is asked of its own shard; the answer keeps the order of the request.
Versions: 0-2.
"""

from ledgerstone.protocol.message import replace
from ledgerstone.protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResult,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DeleteGroupsRequest) -> Answer:
    found: dict[str, DeleteGroupsResult] = {}
    for number, group_ids in broker.groups.by_shard(broker, message.groups_names).items():
        some = replace(message, groups_names=group_ids)
        found |= {each.group_id: each for each in _ask(broker, request, number, some).results}
    names = dict.fromkeys(message.groups_names)
    return DeleteGroupsResponse(results=[found[each] for each in names])


def _ask(
    broker: Broker, request: Request, number: int, message: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    answer = broker.groups.call_one_of_many(
        broker,
        request,
        number,
        message,
        lambda shard, context, now: shard.handle_delete_groups(message, context, now),
    )
    assert isinstance(answer, DeleteGroupsResponse)
    return answer
