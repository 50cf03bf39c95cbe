"""DeleteAcls (31). Grade D.

Behaviour: SECURITY_DISABLED for each filter, as in Kafka without an authorizer.
Versions: 1-3.
"""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.describe_acls import NO_AUTHORIZER
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DeleteAclsRequest) -> Answer:
    refusal = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[refusal] * len(message.filters))
