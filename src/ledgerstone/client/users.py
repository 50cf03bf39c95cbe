"""Users of SCRAM: list, set, remove. Shell over a `Client`.

Passwords are salted here: brokers see neither them nor anything that could be used to log in.
"""

from typing import NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.errors import check
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsDeletion,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsUpsertion,
)
from ledgerstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsUser,
)
from ledgerstone.security.scram_keys import SALT_BYTES, ScramMechanism, salt_password


class ScramUser(NamedTuple):
    name: str
    # With the iterations of each.
    mechanisms: dict[ScramMechanism, int]


def scram_users(client: Client, name: str | None = None) -> list[ScramUser]:
    """All of them, or the one of this name; none if there is no such user."""
    asked = None if name is None else [DescribeUserScramCredentialsUser(name)]
    request = DescribeUserScramCredentialsRequest(asked)
    response = client.call(request, DescribeUserScramCredentialsResponse)
    check(response.error_code, request.name, response.error_message)
    found = []
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        check(result.error_code, f"user {result.user}", result.error_message)
        mechanisms = {
            ScramMechanism(each.mechanism): each.iterations for each in result.credential_infos
        }
        found.append(ScramUser(result.user, mechanisms))
    return sorted(found)


def set_password(
    client: Client, name: str, password: str, mechanism: ScramMechanism, iterations: int
) -> None:
    salt = client.dice.random_bytes(SALT_BYTES)
    salted = salt_password(mechanism, password.encode(), salt, iterations)
    upsertion = AlterUserScramCredentialsUpsertion(name, mechanism, iterations, salt, salted)
    _alter(client, AlterUserScramCredentialsRequest(upsertions=[upsertion]))


def remove_user(client: Client, name: str, mechanism: ScramMechanism) -> None:
    deletion = AlterUserScramCredentialsDeletion(name, mechanism)
    _alter(client, AlterUserScramCredentialsRequest(deletions=[deletion]))


def _alter(client: Client, request: AlterUserScramCredentialsRequest) -> None:
    response = client.call(request, AlterUserScramCredentialsResponse)
    for result in response.results:
        check(result.error_code, f"user {result.user}", result.error_message)
