"""SyncGroup (14). Grade D.

Behaviour: parks until the leader has sent the assignment. From version 5 on a request has to name
the protocol, else it is INCONSISTENT_GROUP_PROTOCOL before anything else is looked at.
The rules are the coordinator's: coordinator/README.md.
Versions: 0-5.
"""

from typing import Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request

_FIRST_VERSION_WITH_PROTOCOL: Final = 5


def handle(broker: Broker, request: Request, message: SyncGroupRequest) -> Answer:
    names = (message.protocol_type, message.protocol_name)
    if request.api_version >= _FIRST_VERSION_WITH_PROTOCOL and None in names:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return broker.groups.ask(
        request,
        message.group_id,
        lambda shard, context, now: shard.handle_sync_group(message, context, now),
        from_member=True,
    )
