"""CreateDelegationToken, api key 38. Pure.

Made from schemas/create_delegation_token.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class CreateDelegationTokenRenewer(Struct):
    principal_type: str = ""
    principal_name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class CreateDelegationTokenRequest(ApiMessage):
    api_key: ClassVar[int] = 38
    name: ClassVar[str] = "CreateDelegationToken"

    owner_principal_type: str | None = None
    owner_principal_name: str | None = None
    renewers: list[CreateDelegationTokenRenewer] = field(default_factory=list)
    max_lifetime_ms: int = 0


@dataclass(slots=True, eq=False, repr=False)
class CreateDelegationTokenResponse(ApiMessage):
    api_key: ClassVar[int] = 38
    name: ClassVar[str] = "CreateDelegationToken"

    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0


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
