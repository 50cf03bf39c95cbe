"""DescribeCluster (60). Grade D.

Behaviour: cluster id, brokers, and as the controller a live broker, which forwards.
Versions: 0-2. Endpoint type 2 (controllers) is MISMATCHED_ENDPOINT_TYPE: there is no controller
listener here; any other is UNSUPPORTED_ENDPOINT_TYPE.
"""

from typing import Final

from ledgerstone.metadata.reachable import broker_for_admin, endpoint_of
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.metadata import ALL_CLUSTER_OPERATIONS
from ledgerstone.server.request import Answer, Request

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(broker: Broker, request: Request, message: DescribeClusterRequest) -> Answer:
    if message.endpoint_type != BROKERS:
        known = message.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if known
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"endpoint type {message.endpoint_type}; this listener is for brokers",
        )
    image = broker.image
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=broker_for_admin(image, broker.config.node_id),
        brokers=[
            DescribeClusterBroker(
                each.broker_id, endpoint.host, endpoint.port, each.rack, each.fenced
            )
            for each in image.brokers.values()
            if message.include_fenced_brokers or not each.fenced
            if (endpoint := endpoint_of(each, request.session.listener)) is not None
        ],
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response
