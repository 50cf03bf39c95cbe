"""DescribeAcls (29). Grade D.

Behaviour: the ACLs that match, by resource, as this node knows them. Without an authorizer
SECURITY_DISABLED, as in Kafka.
Versions: 1-3.
"""

from typing import Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_acls import (
    DescribeAclsAcl,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ledgerstone.security.acl import AclFilter
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Disconnect, Request

NO_AUTHORIZER: Final = "there are no ACLs here: everybody may do everything"


def handle(broker: Broker, request: Request, message: DescribeAclsRequest) -> Answer:
    check_codes(
        message.resource_type_filter,
        message.pattern_type_filter,
        message.operation,
        message.permission_type,
    )
    if broker.authorizer is None:
        code = ErrorCode.SECURITY_DISABLED
        return DescribeAclsResponse(error_code=code, error_message=NO_AUTHORIZER)
    wanted = AclFilter(
        message.resource_type_filter,
        message.resource_name_filter,
        message.pattern_type_filter,
        message.principal_filter,
        message.host_filter,
        message.operation,
        message.permission_type,
    )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in filter(wanted.matches, broker.image.acls.values()):
        pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
        resource = resources.setdefault(pattern, DescribeAclsResource(*pattern))
        resource.acls.append(
            DescribeAclsAcl(acl.principal, acl.host, acl.operation, acl.permission_type)
        )
    return DescribeAclsResponse(resources=list(resources.values()))


def check_codes(*codes: int) -> None:
    """0 means nothing in these requests, and Kafka closes the connection over it."""
    if 0 in codes:
        raise Disconnect("the request has a code 0, UNKNOWN, for what an ACL is about")
