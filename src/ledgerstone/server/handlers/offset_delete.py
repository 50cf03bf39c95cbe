"""OffsetDelete (47). Grade D.

Behaviour: removes committed offsets of topics nobody is subscribed to.
The rules are the coordinator's: coordinator/README.md.
Versions: 0.
"""

from ledgerstone.protocol.messages.offset_delete import OffsetDeleteRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: OffsetDeleteRequest) -> Answer:
    return broker.groups.ask(
        broker,
        request,
        message.group_id,
        lambda shard, context, now: shard.handle_offset_delete(message, context, now),
    )
