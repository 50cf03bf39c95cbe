"""DescribeDelegationToken, api key 41. Pure.

Made from schemas/describe_delegation_token.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeDelegationTokenOwner(Struct):
    principal_type: str = ""
    principal_name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class DescribeDelegationTokenRequest(ApiMessage):
    api_key: ClassVar[int] = 41
    name: ClassVar[str] = "DescribeDelegationToken"

    owners: list[DescribeDelegationTokenOwner] | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeDelegationTokenRenewer(Struct):
    principal_type: str = ""
    principal_name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class DescribeDelegationTokenToken(Struct):
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: list[DescribeDelegationTokenRenewer] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeDelegationTokenResponse(ApiMessage):
    api_key: ClassVar[int] = 41
    name: ClassVar[str] = "DescribeDelegationToken"

    error_code: int = 0
    tokens: list[DescribeDelegationTokenToken] = field(default_factory=list)
    throttle_time_ms: int = 0


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
