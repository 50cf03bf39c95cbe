"""DescribeClientQuotas (48). Grade D.

Behaviour: what is committed, as far as this broker has applied it. A question that Kafka does not
understand is refused as there, and then the entries are null.
Versions: 0-1.
"""

from ledgerstone.metadata.quota_changes import describe_client_quotas
from ledgerstone.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DescribeClientQuotasRequest) -> Answer:
    return describe_client_quotas(broker.image, message)
