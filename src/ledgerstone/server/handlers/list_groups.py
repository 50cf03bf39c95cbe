"""ListGroups (16). Grade D.

Behaviour: every group of every shard that passes the filters.
Versions: 0-5.
"""

from collections.abc import Sequence

from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import Now, RequestContext, TurnOutcome
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.groups.agent import ShardPart
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: ListGroupsRequest) -> Answer:
    def call(shard: GroupShard, context: RequestContext, now: Now) -> TurnOutcome:
        return shard.handle_list_groups(message, context, now)

    parts = [ShardPart(number, message, call) for number in broker.groups.shards.loaded()]
    return broker.groups.ask_shards(request, parts, _combined)


def _combined(answers: Sequence[ApiMessage]) -> ListGroupsResponse:
    response = ListGroupsResponse()
    for answer in answers:
        assert isinstance(answer, ListGroupsResponse)
        response.error_code = response.error_code or answer.error_code
        response.groups += answer.groups
    return response
