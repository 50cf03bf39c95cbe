"""SaslAuthenticate, api key 36. Pure.

Made from schemas/sasl_authenticate.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class SaslAuthenticateRequest(ApiMessage):
    api_key: ClassVar[int] = 36
    name: ClassVar[str] = "SaslAuthenticate"

    auth_bytes: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class SaslAuthenticateResponse(ApiMessage):
    api_key: ClassVar[int] = 36
    name: ClassVar[str] = "SaslAuthenticate"

    error_code: int = 0
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


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
