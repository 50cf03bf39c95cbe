"""DescribeDelegationToken, api key 41. Pure.

Made from schemas/describe_delegation_token.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DescribeDelegationTokenOwner(Struct):
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


class DescribeDelegationTokenRequest(ApiMessage):
    api_key: ClassVar[int] = 41
    name: ClassVar[str] = "DescribeDelegationToken"

    __slots__ = ("owners",)

    def __init__(
        self,
        owners: list[DescribeDelegationTokenOwner] | None = None,
    ) -> None:
        self.owners = owners


class DescribeDelegationTokenRenewer(Struct):
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


class DescribeDelegationTokenToken(Struct):
    __slots__ = (
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp",
        "expiry_timestamp",
        "max_timestamp",
        "token_id",
        "hmac",
        "renewers",
    )

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: list[DescribeDelegationTokenRenewer] = ABSENT,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = [] if renewers is ABSENT else renewers


class DescribeDelegationTokenResponse(ApiMessage):
    api_key: ClassVar[int] = 41
    name: ClassVar[str] = "DescribeDelegationToken"

    __slots__ = (
        "error_code",
        "tokens",
        "throttle_time_ms",
    )

    def __init__(
        self,
        error_code: int = 0,
        tokens: list[DescribeDelegationTokenToken] = ABSENT,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.tokens = [] if tokens is ABSENT else tokens
        self.throttle_time_ms = throttle_time_ms


SCHEMA: Final = """\
api 41 DescribeDelegationToken
request v1-3 flexible 2+
    owners: [DescribeDelegationTokenOwner]?
        principal_type: str
        principal_name: str
response v1-3 flexible 2+
    error_code: i16
    tokens: [DescribeDelegationTokenToken]
        principal_type: str
        principal_name: str
        token_requester_principal_type: str @3+
        token_requester_principal_name: str @3+
        issue_timestamp: i64
        expiry_timestamp: i64
        max_timestamp: i64
        token_id: str
        hmac: bytes
        renewers: [DescribeDelegationTokenRenewer]
            principal_type: str
            principal_name: str
    throttle_time_ms: i32
"""
