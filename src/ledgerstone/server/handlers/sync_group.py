"""SyncGroup (14). Grade D.

Behaviour: parks until the leader has sent the assignment.
The rules are the coordinator's: coordinator/README.md.
Versions: 0-5.
"""

from ledgerstone.protocol.messages.sync_group import SyncGroupRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: SyncGroupRequest) -> Answer:
    return broker.groups.ask(
        broker,
        request,
        message.group_id,
        lambda shard, context, now: shard.handle_sync_group(message, context, now),
        from_member=True,
    )
