"""DescribeCluster (60). Grade D.

Behaviour: cluster id, brokers, and as the controller a live broker, which forwards. On a listener
for controllers: the registered controllers, and the active one. The endpoint type says which of the
two was meant; the other one is MISMATCHED_ENDPOINT_TYPE, any other UNSUPPORTED_ENDPOINT_TYPE.
Versions: 0-2.
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
_NAMES: Final = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def handle(broker: Broker, request: Request, message: DescribeClusterRequest) -> Answer:
    served = CONTROLLERS if request.session.is_controller_listener else BROKERS
    if message.endpoint_type != served:
        return _mismatch(message.endpoint_type, served)
    if served == CONTROLLERS:
        response = _controllers(broker, request)
    else:
        response = _brokers(broker, request, message)
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response


def _mismatch(asked: int, served: int) -> DescribeClusterResponse:
    if asked not in _NAMES:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {asked}",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        error_message=f"The request was sent to an endpoint of type {_NAMES[served]}, but we "
        f"wanted an endpoint of type {_NAMES[asked]}",
    )


def _controllers(broker: Broker, request: Request) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=broker.image.cluster_id,
        controller_id=broker.controller_link.controller_id,
        brokers=[
            DescribeClusterBroker(each.controller_id, endpoint.host, endpoint.port)
            for each in broker.image.controllers.values()
            for endpoint in each.endpoints
            if endpoint.name == request.session.listener
        ],
    )


def _brokers(
    broker: Broker, request: Request, message: DescribeClusterRequest
) -> DescribeClusterResponse:
    image, listener = broker.image, request.session.listener
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=broker_for_admin(
            image, listener, broker.controller_link.controller_id, broker.config.node_id
        ),
        brokers=[
            DescribeClusterBroker(
                each.broker_id, endpoint.host, endpoint.port, each.rack, each.fenced
            )
            for each in image.brokers.values()
            if message.include_fenced_brokers or not each.fenced
            if (endpoint := endpoint_of(each, listener)) is not None
        ],
    )
