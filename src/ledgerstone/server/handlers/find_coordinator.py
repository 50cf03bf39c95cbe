"""FindCoordinator (10). Grade D, because it creates the coordinators' topics on first use.

Behaviour: the leader of the group's partition of __consumer_offsets, or of the transactional id's
partition of __transaction_state. Share groups have no coordinator, and get INVALID_REQUEST.
Versions: 0-6, several keys at once from 4.
Where nothing is wrong the message is not null: "NONE" up to version 3, empty later, as in Kafka.
"""

from typing import Final

from ledgerstone.errors import CoordinatorNotAvailable
from ledgerstone.metadata.decision import reason_of
from ledgerstone.metadata.reachable import endpoint_of
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorCoordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request

GROUP: Final = 0
TRANSACTION: Final = 1
_FIRST_VERSION_WITH_KEYS: Final = 4
_NO_ERROR: Final = "NONE"


def handle(broker: Broker, request: Request, message: FindCoordinatorRequest) -> Answer:
    if request.api_version >= _FIRST_VERSION_WITH_KEYS:
        found = [_find(broker, request, message.key_type, key) for key in message.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    only = _find(broker, request, message.key_type, message.key)
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or _NO_ERROR,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _find(broker: Broker, request: Request, key_type: int, key: str) -> FindCoordinatorCoordinator:
    found = FindCoordinatorCoordinator(key=key, node_id=-1, port=-1, error_message="")
    if key_type not in (GROUP, TRANSACTION):
        found.error_code = ErrorCode.INVALID_REQUEST
        found.error_message = f"coordinator type {key_type} is not known here"
        return found
    coordinators = broker.transactions if key_type == TRANSACTION else broker.groups
    try:
        node_id = coordinators.coordinator_of(key)
        endpoint = endpoint_of(broker.image.brokers[node_id], request.session.listener)
        if endpoint is None:
            raise CoordinatorNotAvailable(f"{node_id} has no listener {request.session.listener}")
    except CoordinatorNotAvailable as error:
        found.error_code, found.error_message = error.code, reason_of(error)
        return found
    found.node_id, found.host, found.port = node_id, endpoint.host, endpoint.port
    return found
