"""CreateDelegationToken, api key 38. Pure.

Made from schemas/create_delegation_token.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class CreateDelegationTokenRenewer(Struct):
    __slots__ = (
        "principal_type",
        "principal_name",
    )

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class CreateDelegationTokenRequest(ApiMessage):
    api_key: ClassVar[int] = 38
    name: ClassVar[str] = "CreateDelegationToken"

    __slots__ = (
        "owner_principal_type",
        "owner_principal_name",
        "renewers",
        "max_lifetime_ms",
    )

    def __init__(
        self,
        owner_principal_type: str | None = None,
        owner_principal_name: str | None = None,
        renewers: list[CreateDelegationTokenRenewer] = ABSENT,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = [] if renewers is ABSENT else renewers
        self.max_lifetime_ms = max_lifetime_ms


class CreateDelegationTokenResponse(ApiMessage):
    api_key: ClassVar[int] = 38
    name: ClassVar[str] = "CreateDelegationToken"

    __slots__ = (
        "error_code",
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp_ms",
        "expiry_timestamp_ms",
        "max_timestamp_ms",
        "token_id",
        "hmac",
        "throttle_time_ms",
    )

    def __init__(
        self,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms


SCHEMA: Final = """\
api 38 CreateDelegationToken
request v1-3 flexible 2+
    owner_principal_type: str? @3+
    owner_principal_name: str? @3+
    renewers: [CreateDelegationTokenRenewer]
        principal_type: str
        principal_name: str
    max_lifetime_ms: i64
response v1-3 flexible 2+
    error_code: i16
    principal_type: str
    principal_name: str
    token_requester_principal_type: str @3+
    token_requester_principal_name: str @3+
    issue_timestamp_ms: i64
    expiry_timestamp_ms: i64
    max_timestamp_ms: i64
    token_id: str
    hmac: bytes
    throttle_time_ms: i32
"""
