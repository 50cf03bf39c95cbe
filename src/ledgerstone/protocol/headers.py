"""Request and response headers. Pure. The byte table is in README.md.

Two exceptions make these hand-written: a request header's client id keeps its two-byte length in
every version, and ApiVersions is always answered with response header 0, since the client does not
know the broker's versions yet.
"""

import struct
from typing import Final, NamedTuple

from ledgerstone.protocol.api import ApiKey, is_flexible
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.wire import BrokenBytes, MalformedMessage, skip_tags
from ledgerstone.types import Buffer

_REQUEST: Final = struct.Struct(">hhih")
_NEVER: Final = 1 << 15  # above every version
# The first version with tags. For an unknown API, tags and body cannot be told apart.
_FLEXIBLE_FROM: Final = {
    key: _NEVER if api.flexible_from is None else api.flexible_from for key, api in APIS.items()
}
_CORRELATION_ID: Final = struct.Struct(">i")
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header, and where the body begins."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(frame)
    except struct.error as error:
        raise MalformedMessage("RequestHeader", 1, "fixed part", 0, str(error)) from None
    position = _REQUEST.size
    client_id: str | None = None
    if length >= 0:
        if length > len(frame) - position:
            reason = f"{length} bytes announced, {len(frame) - position} left"
            raise MalformedMessage("RequestHeader", 1, "client_id", position, reason)
        try:
            client_id = str(frame[position : position + length], "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedMessage("RequestHeader", 1, "client_id", position, str(error)) from None
        position += length
    elif length != -1:
        reason = f"length {length}"
        raise MalformedMessage("RequestHeader", 1, "client_id", position, reason)
    if api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER):
        position = _skip_header_tags("RequestHeader", 2, frame, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def _skip_header_tags(name: str, version: int, frame: Buffer, position: int) -> int:
    try:
        count = frame[position]
        return skip_tags(frame, position + 1, count) if count else position + 1
    except (IndexError, BrokenBytes) as error:
        raise MalformedMessage(name, version, "tags", position, str(error)) from None


def encode_request_header(header: RequestHeader) -> bytes:
    client_id = None if header.client_id is None else header.client_id.encode()
    length = -1 if client_id is None else len(client_id)
    fixed = _REQUEST.pack(header.api_key, header.api_version, header.correlation_id, length)
    tags = b"\0" if is_flexible(header.api_key, header.api_version) else b""
    return fixed + (client_id or b"") + tags


def has_response_tags(api_key: int, api_version: int) -> bool:
    return api_version >= _FLEXIBLE_FROM[api_key] and api_key != _API_VERSIONS


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    fixed = _CORRELATION_ID.pack(correlation_id)
    return fixed + b"\0" if has_response_tags(api_key, api_version) else fixed


def peek_correlation_id(frame: Buffer) -> int:
    """The correlation id of a response: the matching request decides the rest of its header."""
    if len(frame) < _CORRELATION_ID.size:
        reason = f"{len(frame)} bytes"
        raise MalformedMessage("ResponseHeader", 0, "correlation_id", 0, reason)
    correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0]
    return correlation_id


def response_body_position(api_key: int, api_version: int, frame: Buffer) -> int:
    if not has_response_tags(api_key, api_version):
        return _CORRELATION_ID.size
    return _skip_header_tags("ResponseHeader", 1, frame, _CORRELATION_ID.size)
