"""DescribeClientQuotas (48). Grade D.

Behaviour: none are set, whatever is asked for; the API that would set one is not offered.
Versions: 0-1.
"""

from ledgerstone.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DescribeClientQuotasRequest) -> Answer:
    return DescribeClientQuotasResponse(entries=[])
