"""DeleteAcls (31). Grade D.

Behaviour: removes what matches one of the filters; each filter reports what it matched. Without an
authorizer SECURITY_DISABLED for each filter, as in Kafka.
The rules are the controller's: metadata/README.md.
Versions: 1-3.
"""

from ledgerstone.metadata.not_controller import refusal
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_acls import DeleteAclsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.handlers.describe_acls import NO_AUTHORIZER, check_codes
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: DeleteAclsRequest) -> Answer:
    for each in message.filters:
        check_codes(
            each.resource_type_filter,
            each.pattern_type_filter,
            each.operation,
            each.permission_type,
        )
    if broker.authorizer is None:
        return refusal(message, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return ask_controller(broker, request, message)
