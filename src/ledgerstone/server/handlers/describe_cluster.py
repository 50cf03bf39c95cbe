"""DescribeCluster (60). Grade D.

Behaviour: cluster id, controller, brokers.
Versions: 0-2. Endpoint type 2 (controllers) is MISMATCHED_ENDPOINT_TYPE: there is no controller
listener here; any other is UNSUPPORTED_ENDPOINT_TYPE.
"""

from typing import Final

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
    response = DescribeClusterResponse(
        cluster_id=broker.image.cluster_id,
        controller_id=broker.controller_link.controller_id,
        brokers=[
            DescribeClusterBroker(node_id, *broker.address_of(node_id), each.rack, each.fenced)
            for node_id, each in broker.image.brokers.items()
            if message.include_fenced_brokers or not each.fenced
        ],
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response
