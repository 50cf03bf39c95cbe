"""Envelope, api key 58. Pure.

Made from schemas/envelope.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


class EnvelopeRequest(ApiMessage):
    api_key: ClassVar[int] = 58
    name: ClassVar[str] = "Envelope"

    __slots__ = (
        "request_data",
        "request_principal",
        "client_host_address",
    )

    def __init__(
        self,
        request_data: bytes = b"",
        request_principal: bytes | None = None,
        client_host_address: bytes = b"",
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address


class EnvelopeResponse(ApiMessage):
    api_key: ClassVar[int] = 58
    name: ClassVar[str] = "Envelope"

    __slots__ = (
        "response_data",
        "error_code",
    )

    def __init__(
        self,
        response_data: bytes | None = None,
        error_code: int = 0,
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code


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
