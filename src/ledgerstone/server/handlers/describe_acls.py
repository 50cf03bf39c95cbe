"""DescribeAcls (29). Grade D.

Behaviour: SECURITY_DISABLED, as in Kafka without an authorizer.
Versions: 1-3.
"""

from typing import Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request

NO_AUTHORIZER: Final = "there are no ACLs here: everybody may do everything"


def handle(broker: Broker, request: Request, message: DescribeAclsRequest) -> Answer:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
