"""ExpireDelegationToken, api key 40. Pure.

Made from schemas/expire_delegation_token.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class ExpireDelegationTokenRequest(ApiMessage):
    api_key: ClassVar[int] = 40
    name: ClassVar[str] = "ExpireDelegationToken"

    hmac: bytes = b""
    expiry_time_period_ms: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ExpireDelegationTokenResponse(ApiMessage):
    api_key: ClassVar[int] = 40
    name: ClassVar[str] = "ExpireDelegationToken"

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


SCHEMA: Final = """\
api 40 ExpireDelegationToken
request v1-2 flexible 2+
    hmac: bytes
    expiry_time_period_ms: i64
response v1-2 flexible 2+
    error_code: i16
    expiry_timestamp_ms: i64
    throttle_time_ms: i32
"""
