"""ConsumerGroupHeartbeat (68). Grade D.

Behaviour: UNSUPPORTED_VERSION. It is offered for the sake of librdkafka: where the API is missing,
its consumer with group.protocol=consumer waits in silence; told so, it fails at once.
Versions: 0-1.
"""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: ConsumerGroupHeartbeatRequest) -> Answer:
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="groups of type consumer are not served; use group.protocol=classic",
    )
