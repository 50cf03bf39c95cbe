"""DescribeUserScramCredentials (50). Grade D.

Behaviour: nobody has any; a user who is named gets RESOURCE_NOT_FOUND, one who is named twice
DUPLICATE_RESOURCE. The API that would set one is not offered.
Versions: 0.
"""

from collections import Counter

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request


def handle(
    broker: Broker, request: Request, message: DescribeUserScramCredentialsRequest
) -> Answer:
    times = Counter(user.name for user in message.users or ())
    return DescribeUserScramCredentialsResponse(
        error_message="",
        results=[
            DescribeUserScramCredentialsResult(
                name, ErrorCode.RESOURCE_NOT_FOUND, f"user {name!r} has no credentials"
            )
            if count == 1
            else DescribeUserScramCredentialsResult(
                name, ErrorCode.DUPLICATE_RESOURCE, f"user {name!r} is named {count} times"
            )
            for name, count in times.items()
        ],
    )
