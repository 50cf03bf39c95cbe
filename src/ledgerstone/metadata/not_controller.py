"""What requests that change metadata are answered where no controller decides about them. Pure.

NOT_CONTROLLER in the place each API has for it: clients look for the controller again. A change
that was under way may still happen, so to ask again may find it done.
"""

from typing import Final

from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ledgerstone.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
)
from ledgerstone.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ledgerstone.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from ledgerstone.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResult,
)
from ledgerstone.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResult,
)
from ledgerstone.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ledgerstone.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_CODE: Final = ErrorCode.NOT_CONTROLLER
_REASON: Final = "this node is not the controller"


def not_controller(request: ApiMessage) -> ApiMessage:
    match request:
        case CreateTopicsRequest():
            names = dict.fromkeys(topic.name for topic in request.topics)
            return CreateTopicsResponse(
                topics=[
                    CreateTopicsResponseTopic(name=name, error_code=_CODE, error_message=_REASON)
                    for name in names
                ]
            )
        case DeleteTopicsRequest():
            by_name = [DeleteTopicsResult(name=name) for name in request.topic_names]
            by_both = [DeleteTopicsResult(each.name, each.topic_id) for each in request.topics]
            for result in (*by_name, *by_both):
                result.error_code, result.error_message = _CODE, _REASON
            return DeleteTopicsResponse(responses=[*by_both, *by_name])
        case CreatePartitionsRequest():
            names = dict.fromkeys(topic.name for topic in request.topics)
            results = [CreatePartitionsResult(name, _CODE, _REASON) for name in names]
            return CreatePartitionsResponse(results=results)
        case IncrementalAlterConfigsRequest():
            return IncrementalAlterConfigsResponse(
                responses=[
                    IncrementalAlterConfigsResult(
                        _CODE, _REASON, each.resource_type, each.resource_name
                    )
                    for each in request.resources
                ]
            )
        case AlterConfigsRequest():
            return AlterConfigsResponse(
                responses=[
                    AlterConfigsResult(_CODE, _REASON, each.resource_type, each.resource_name)
                    for each in request.resources
                ]
            )
        case ElectLeadersRequest():
            return ElectLeadersResponse(error_code=_CODE)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(error_code=_CODE)
        case BrokerHeartbeatRequest():
            return BrokerHeartbeatResponse(error_code=_CODE)
        case BrokerRegistrationRequest():
            return BrokerRegistrationResponse(error_code=_CODE)
        case UnregisterBrokerRequest():
            return UnregisterBrokerResponse(error_code=_CODE, error_message=_REASON)
        case ControllerRegistrationRequest():
            return ControllerRegistrationResponse(error_code=_CODE, error_message=_REASON)
        case UpdateFeaturesRequest():
            return UpdateFeaturesResponse(error_code=_CODE, error_message=_REASON)
        case _:
            raise InvariantViolation(f"{request.name} is not for the controller")
