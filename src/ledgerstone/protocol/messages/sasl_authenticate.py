"""SaslAuthenticate, api key 36. Pure.

Made from schemas/sasl_authenticate.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


class SaslAuthenticateRequest(ApiMessage):
    api_key: ClassVar[int] = 36
    name: ClassVar[str] = "SaslAuthenticate"

    __slots__ = ("auth_bytes",)

    def __init__(
        self,
        auth_bytes: bytes = b"",
    ) -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(ApiMessage):
    api_key: ClassVar[int] = 36
    name: ClassVar[str] = "SaslAuthenticate"

    __slots__ = (
        "error_code",
        "error_message",
        "auth_bytes",
        "session_lifetime_ms",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms


SCHEMA: Final = """\
api 36 SaslAuthenticate
request v0-2 flexible 2+
    auth_bytes: bytes
response v0-2 flexible 2+
    error_code: i16
    error_message: str?
    auth_bytes: bytes
    session_lifetime_ms: i64 @1+
"""
