"""ListGroups (16). Grade D.

Behaviour: every group of every shard that passes the filters. While a shard loads nobody knows its
groups, and a list without them would pass for all: COORDINATOR_LOAD_IN_PROGRESS, as in Kafka.
Versions: 0-5.
"""

from collections.abc import Collection, Sequence
from typing import Final

from ledgerstone.coordinator.group_state import GroupPhase, GroupState
from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import Now, RequestContext, TurnOutcome
from ledgerstone.protocol.message import ApiMessage, replace
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.groups.agent import ShardPart
from ledgerstone.server.request import Answer, Request

_STATES: Final = frozenset(each.value.lower() for each in GroupPhase)
_TYPES: Final = frozenset([GroupState.group_type])


def handle(broker: Broker, request: Request, message: ListGroupsRequest) -> Answer:
    message = replace(
        message,
        states_filter=_shortened(message.states_filter, _STATES),
        types_filter=_shortened(message.types_filter, _TYPES),
    )

    def call(shard: GroupShard, context: RequestContext, now: Now) -> TurnOutcome:
        return shard.handle_list_groups(message, context, now)

    parts = [ShardPart(number, message, call) for number in broker.groups.shards.hosted()]
    return broker.groups.ask_shards(request, parts, _combined)


def _shortened(names: Sequence[str], known: Collection[str]) -> list[str]:
    """A request has room for a million names, and every group is held against them. Those that no
    group can have are one: the empty one, which matches nothing either."""
    lowered = (each.lower() for each in names)
    return list(dict.fromkeys(each if each in known else "" for each in lowered))


def _combined(answers: Sequence[ApiMessage]) -> ListGroupsResponse:
    response = ListGroupsResponse()
    for answer in answers:
        assert isinstance(answer, ListGroupsResponse)
        if answer.error_code:
            return ListGroupsResponse(error_code=answer.error_code)
        response.groups += answer.groups
    return response
