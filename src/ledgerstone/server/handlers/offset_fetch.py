"""OffsetFetch (9). Grade D.

Behaviour: committed offsets; -1 and no error where there are none, also for a group nobody knows.
Versions: 1-9; several groups at once from 8, each asked of its own shard.
"""

from collections.abc import Sequence
from typing import Final

from ledgerstone.protocol.message import ApiMessage, replace
from ledgerstone.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.groups.agent import Call, ShardPart
from ledgerstone.server.request import Answer, Request

_FIRST_VERSION_WITH_GROUPS: Final = 8


def handle(broker: Broker, request: Request, message: OffsetFetchRequest) -> Answer:
    if request.api_version < _FIRST_VERSION_WITH_GROUPS:
        return broker.groups.ask(request, message.group_id, _call(message))
    # Each group once: to say all of its offsets again and again would cost us more than the asker.
    groups = {each.group_id: each for each in message.groups}.values()
    parts = []
    for group in groups:
        one = replace(message, groups=[group])
        number = broker.groups.number_for(group.group_id)
        parts.append(ShardPart(number, one, _call(one)))
    return broker.groups.ask_shards(request, parts, _combined)


def _call(message: OffsetFetchRequest) -> Call:
    return lambda shard, context, now: shard.handle_offset_fetch(message, context, now)


def _combined(answers: Sequence[ApiMessage]) -> OffsetFetchResponse:
    response = OffsetFetchResponse()
    for answer in answers:
        assert isinstance(answer, OffsetFetchResponse)
        response.groups += answer.groups
    return response
