"""RenewDelegationToken, api key 39. Pure.

Made from schemas/renew_delegation_token.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class RenewDelegationTokenRequest(ApiMessage):
    api_key: ClassVar[int] = 39
    name: ClassVar[str] = "RenewDelegationToken"

    hmac: bytes = b""
    renew_period_ms: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RenewDelegationTokenResponse(ApiMessage):
    api_key: ClassVar[int] = 39
    name: ClassVar[str] = "RenewDelegationToken"

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


SCHEMA: Final = """\
api 39 RenewDelegationToken
request v1-2 flexible 2+
    hmac: bytes
    renew_period_ms: i64
response v1-2 flexible 2+
    error_code: i16
    expiry_timestamp_ms: i64
    throttle_time_ms: i32
"""
