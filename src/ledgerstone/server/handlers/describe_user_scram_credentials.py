"""DescribeUserScramCredentials (50). Grade D.

Behaviour: mechanisms and iterations of the users that are named, else of all. Unknown:
RESOURCE_NOT_FOUND; named twice: DUPLICATE_RESOURCE.
Versions: 0.
"""

from ledgerstone.metadata.scram_changes import describe_scram_credentials
from ledgerstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(
    broker: Broker, request: Request, message: DescribeUserScramCredentialsRequest
) -> Answer:
    return describe_scram_credentials(broker.image, message)
