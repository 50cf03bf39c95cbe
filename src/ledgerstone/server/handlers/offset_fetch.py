"""OffsetFetch (9). Grade D.

Behaviour: committed offsets; -1 and no error where there are none, also for a group nobody knows.
Versions: 1-9; several groups at once from 8, each asked of its own shard.
"""

from typing import Final

from ledgerstone.protocol.message import replace
from ledgerstone.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request

_FIRST_VERSION_WITH_GROUPS: Final = 8


def handle(broker: Broker, request: Request, message: OffsetFetchRequest) -> Answer:
    if request.api_version < _FIRST_VERSION_WITH_GROUPS:
        return _ask(broker, request, message.group_id, message)
    response = OffsetFetchResponse()
    # Each group once: to say all of its offsets again and again would cost us more than the asker.
    for group in {each.group_id: each for each in message.groups}.values():
        one = replace(message, groups=[group])
        response.groups += _ask(broker, request, group.group_id, one).groups
    return response


def _ask(
    broker: Broker, request: Request, group_id: str, message: OffsetFetchRequest
) -> OffsetFetchResponse:
    answer = broker.groups.call_one_of_many(
        broker,
        request,
        broker.groups.number_for(broker, group_id),
        message,
        lambda shard, context, now: shard.handle_offset_fetch(message, context, now),
    )
    assert isinstance(answer, OffsetFetchResponse)
    return answer
