"""JoinGroup (11). Grade D.

Behaviour: parks until the group's join phase ends.
The rules are the coordinator's: coordinator/README.md.
Versions: 0-9.
"""

from ledgerstone.protocol.messages.join_group import JoinGroupRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: JoinGroupRequest) -> Answer:
    return broker.groups.ask(
        request,
        message.group_id,
        lambda shard, context, now: shard.handle_join_group(message, context, now),
        from_member=bool(message.member_id),
    )
