"""ShareGroupHeartbeat (76). Grade D.

Behaviour: UNSUPPORTED_VERSION. It is offered for the sake of librdkafka: where the API is missing,
its share consumer waits in silence; told so, it says it.
Versions: 1.
"""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: ShareGroupHeartbeatRequest) -> Answer:
    return ShareGroupHeartbeatResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="share groups are not served here",
    )
