"""CreateAcls (30). Grade D.

Behaviour: SECURITY_DISABLED for each, as in Kafka without an authorizer.
Versions: 1-3.
"""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreateAclsResult,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.describe_acls import NO_AUTHORIZER
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: CreateAclsRequest) -> Answer:
    refusal = CreateAclsResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return CreateAclsResponse(results=[refusal] * len(message.creations))
