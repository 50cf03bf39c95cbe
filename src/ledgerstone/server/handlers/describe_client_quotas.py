"""DescribeClientQuotas (48). Grade D.

Behaviour: none are set, whatever is asked for; the API that would set one is not offered. A
question that Kafka does not understand is refused as there, and then the entries are null.
Versions: 0-1.
"""

from typing import Final

from ledgerstone.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ledgerstone.metadata.decision import reason_of
from ledgerstone.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request

_ENTITY_TYPES: Final = ("user", "client-id", "ip")
_EXACT, _DEFAULT, _ANY = range(3)


def handle(broker: Broker, request: Request, message: DescribeClientQuotasRequest) -> Answer:
    try:
        _check(message.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=reason_of(error))
    return DescribeClientQuotasResponse(error_message="", entries=[])


def _check(components: list[DescribeClientQuotasComponent]) -> None:
    seen: set[str] = set()
    for each in components:
        if each.entity_type in seen:
            raise InvalidRequest(f"entity type {each.entity_type!r} is named more than once")
        seen.add(each.entity_type)
        if each.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise InvalidRequest(f"there is no match type {each.match_type}")
        if (each.match_type == _EXACT) != (each.match is not None):
            raise InvalidRequest("an exact match needs a name, and only that")
        if each.entity_type not in _ENTITY_TYPES:
            raise UnsupportedVersion(f"there is no entity type {each.entity_type!r}")
