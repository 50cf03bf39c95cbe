"""Envelope, api key 58. Pure.

Made from schemas/envelope.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class EnvelopeRequest(ApiMessage):
    api_key: ClassVar[int] = 58
    name: ClassVar[str] = "Envelope"

    request_data: bytes = b""
    request_principal: bytes | None = None
    client_host_address: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class EnvelopeResponse(ApiMessage):
    api_key: ClassVar[int] = 58
    name: ClassVar[str] = "Envelope"

    response_data: bytes | None = None
    error_code: int = 0


SCHEMA: Final = """\
api 58 Envelope
request v0-0 flexible 0+
    request_data: bytes
    request_principal: bytes?
    client_host_address: bytes
response v0-0 flexible 0+
    response_data: bytes? = null
    error_code: i16
"""
