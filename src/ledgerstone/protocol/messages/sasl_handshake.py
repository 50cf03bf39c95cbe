"""SaslHandshake, api key 17. Pure.

Made from schemas/sasl_handshake.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class SaslHandshakeRequest(ApiMessage):
    api_key: ClassVar[int] = 17
    name: ClassVar[str] = "SaslHandshake"

    mechanism: str = ""


@dataclass(slots=True, eq=False, repr=False)
class SaslHandshakeResponse(ApiMessage):
    api_key: ClassVar[int] = 17
    name: ClassVar[str] = "SaslHandshake"

    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)


SCHEMA: Final = """\
api 17 SaslHandshake
request v0-1 rigid
    mechanism: str
response v0-1 rigid
    error_code: i16
    mechanisms: [str]
"""
