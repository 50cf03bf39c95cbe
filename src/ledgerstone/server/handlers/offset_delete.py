"""OffsetDelete (47). Grade D.

Behaviour: removes committed offsets of topics nobody is subscribed to.
The rules are the coordinator's: coordinator/README.md.
Versions: 0.
"""

from ledgerstone.protocol.messages.offset_delete import OffsetDeleteRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def handle(broker: Broker, request: Request, message: OffsetDeleteRequest) -> Answer:
    number = broker.groups.number_for(broker, message.group_id)
    answer = broker.groups.call(
        broker,
        request,
        number,
        lambda shard, context, now: shard.handle_offset_delete(message, context, now),
    )
    return ANSWERED_LATER if answer is None else answer
