"""ApiVersions (18). Grade D.

Behaviour: what this node handles on the listener of the request, and its features. A version we do
not know is answered in the layout of version 0 by the connection itself. From version 3 the client
names its software; a name that is not one is refused with INVALID_REQUEST.
Versions: 0-4.
Differs from Kafka: only APIs with a handler are offered.
"""

import re
from functools import cache
from typing import Final

from ledgerstone.metadata.features import (
    CONTROLLER_FEATURES,
    KRAFT_VERSION_FEATURE,
    SUPPORTED_FEATURES,
)
from ledgerstone.protocol.api import advertised
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeature,
    SupportedFeature,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE: Final = 3
# Older ones cannot read a feature whose first level is 0 (KAFKA-17492).
_FIRST_VERSION_WITH_LEVEL_0: Final = 4


def handle(broker: Broker, request: Request, message: ApiVersionsRequest) -> Answer:
    names = (message.client_software_name, message.client_software_version)
    is_named = request.api_version >= _FIRST_VERSION_WITH_SOFTWARE
    if is_named and not all(_SOFTWARE.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    is_controller = request.session.is_controller_listener
    handled = broker.controller_handled if is_controller else broker.handled
    supported = CONTROLLER_FEATURES if is_controller else SUPPORTED_FEATURES
    response = ApiVersionsResponse(api_keys=list(_api_keys(handled)))
    if is_named:
        response.supported_features = [
            SupportedFeature(name, first, last)
            for name, (first, last) in supported.items()
            if first or request.api_version >= _FIRST_VERSION_WITH_LEVEL_0
        ]
        response.finalized_features = [
            FinalizedFeature(name, level, level)
            for name, level in sorted(_finalized(broker).items())
        ]
        response.finalized_features_epoch = broker.quorum.committed_offset
    return response


@cache
def _api_keys(handled: frozenset[int]) -> tuple[ApiVersion, ...]:
    """The same for every client, and each asks when it connects."""
    return tuple(advertised(handled))


def _finalized(broker: Broker) -> dict[str, int]:
    """kraft.version is the quorum's, not the metadata's."""
    features = dict(broker.image.features)
    if kraft_version := broker.quorum.node.kraft_version:
        features[KRAFT_VERSION_FEATURE] = kraft_version
    return features
