"""SaslHandshake, api key 17. Pure.

Made from schemas/sasl_handshake.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage


class SaslHandshakeRequest(ApiMessage):
    api_key: ClassVar[int] = 17
    name: ClassVar[str] = "SaslHandshake"

    __slots__ = ("mechanism",)

    def __init__(
        self,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(ApiMessage):
    api_key: ClassVar[int] = 17
    name: ClassVar[str] = "SaslHandshake"

    __slots__ = (
        "error_code",
        "mechanisms",
    )

    def __init__(
        self,
        error_code: int = 0,
        mechanisms: list[str] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is ABSENT else mechanisms


SCHEMA: Final = """\
api 17 SaslHandshake
request v0-1 rigid
    mechanism: str
response v0-1 rigid
    error_code: i16
    mechanisms: [str]
"""
