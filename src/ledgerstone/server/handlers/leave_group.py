"""LeaveGroup (13). Grade D.

Behaviour: removes members; several at once from version 3.
The rules are the coordinator's: coordinator/README.md.
Versions: 0-5.
"""

from ledgerstone.protocol.messages.leave_group import LeaveGroupRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: LeaveGroupRequest) -> Answer:
    return broker.groups.ask(
        request,
        message.group_id,
        lambda shard, context, now: shard.handle_leave_group(message, context, now),
        from_member=True,
    )
