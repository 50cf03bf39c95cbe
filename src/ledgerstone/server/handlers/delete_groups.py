"""DeleteGroups (42). Grade D.

Behaviour: deletes groups without members, and their offsets.
Each group is asked of its own shard; the answer keeps the order of the request.
Versions: 0-2.
"""

from dataclasses import replace

from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DeleteGroupsRequest) -> Answer:
    response = DeleteGroupsResponse()
    for group_id in message.groups_names:
        one = replace(message, groups_names=[group_id])
        response.results += _ask(broker, request, group_id, one).results
    return response


def _ask(
    broker: Broker, request: Request, group_id: str, message: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    answer = broker.groups.call(
        broker,
        request,
        broker.groups.number_for(broker, group_id),
        lambda shard, context, now: shard.handle_delete_groups(message, context, now),
    )
    assert isinstance(answer, DeleteGroupsResponse)
    return answer
