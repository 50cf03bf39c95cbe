"""ListConfigResources (74). Grade D.

Behaviour: what can have settings: every topic, every broker (and its loggers), and groups that have
some. Client metrics have none here. Version 0 asks for client metrics only, later ones for the
types they name, or for all.
Versions: 0-1.
"""

from typing import Final

from ledgerstone.metadata.image import ResourceType
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.list_config_resources import (
    ListConfigResourcesConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request

_FIRST_VERSION_WITH_TYPES: Final = 1


def handle(broker: Broker, request: Request, message: ListConfigResourcesRequest) -> Answer:
    wanted = message.resource_types or list(ResourceType)
    if request.api_version < _FIRST_VERSION_WITH_TYPES:
        wanted = [ResourceType.CLIENT_METRICS]
    response = ListConfigResourcesResponse()
    if not all(each in list(ResourceType) for each in wanted):
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return response
    response.config_resources = [
        ListConfigResourcesConfigResource(resource_name=name, resource_type=resource_type)
        for resource_type in dict.fromkeys(wanted)
        for name in _names(broker, resource_type)
    ]
    return response


def _names(broker: Broker, resource_type: int) -> list[str]:
    if resource_type == ResourceType.TOPIC:
        return list(broker.image.topics)
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(node_id) for node_id in broker.image.brokers]
    if resource_type == ResourceType.GROUP:
        return sorted(
            each.name for each in broker.image.configs if each.resource_type == resource_type
        )
    return []
