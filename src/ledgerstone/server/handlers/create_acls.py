"""CreateAcls (30). Grade D.

Behaviour: each ACL has its own error; one that is there already is a success. What is created holds
on this node before the answer leaves, if it is the controller. Without an authorizer
SECURITY_DISABLED for each, as in Kafka.
The rules are the controller's: metadata/README.md.
Versions: 1-3.
"""

from ledgerstone.metadata.not_controller import refusal
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_acls import CreateAclsRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.controller_request import ask_controller
from ledgerstone.server.handlers.describe_acls import NO_AUTHORIZER, check_codes
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: CreateAclsRequest) -> Answer:
    for each in message.creations:
        check_codes(
            each.resource_type, each.resource_pattern_type, each.operation, each.permission_type
        )
    if broker.authorizer is None:
        return refusal(message, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return ask_controller(broker, request, message)
