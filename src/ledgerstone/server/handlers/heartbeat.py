"""Heartbeat (12). Grade D.

Behaviour: keeps a member's session alive and tells it when to join again.
The rules are the coordinator's: coordinator/README.md.
Versions: 0-4.
"""

from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: HeartbeatRequest) -> Answer:
    return broker.groups.ask(
        request,
        message.group_id,
        lambda shard, context, now: shard.handle_heartbeat(message, context, now),
        from_member=True,
    )
