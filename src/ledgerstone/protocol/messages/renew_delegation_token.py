"""RenewDelegationToken, api key 39. Pure.

Made from schemas/renew_delegation_token.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


class RenewDelegationTokenRequest(ApiMessage):
    api_key: ClassVar[int] = 39
    name: ClassVar[str] = "RenewDelegationToken"

    __slots__ = (
        "hmac",
        "renew_period_ms",
    )

    def __init__(
        self,
        hmac: bytes = b"",
        renew_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.renew_period_ms = renew_period_ms


class RenewDelegationTokenResponse(ApiMessage):
    api_key: ClassVar[int] = 39
    name: ClassVar[str] = "RenewDelegationToken"

    __slots__ = (
        "error_code",
        "expiry_timestamp_ms",
        "throttle_time_ms",
    )

    def __init__(
        self,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms


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
