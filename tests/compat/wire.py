"""Sends one request on its own connection, for requests that no client can be made to send."""

import socket
import struct

from ledgerstone.protocol.codec import decode_response, encode_request
from ledgerstone.protocol.headers import (
    RequestHeader,
    encode_request_header,
    peek_correlation_id,
    response_body_position,
)
from ledgerstone.protocol.message import ApiMessage

CORRELATION_ID = 7


def ask(
    bootstrap: str, message: ApiMessage, version: int, *, timeout_s: float = 20.0
) -> ApiMessage:
    """The broker's answer, in the same version."""
    header = RequestHeader(message.api_key, version, CORRELATION_ID, "wire")
    pieces = encode_request(message, version)
    # Only answers hold slices of files; a request is bytes.
    buffers = [piece for piece in pieces if isinstance(piece, bytes | bytearray | memoryview)]
    assert len(buffers) == len(pieces)
    body = b"".join([encode_request_header(header), *buffers])
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        with connection.makefile("rb") as stream:
            size = struct.unpack(">i", stream.read(4))[0]
            frame = stream.read(size)
    assert peek_correlation_id(frame) == CORRELATION_ID
    position = response_body_position(message.api_key, version, frame)
    return decode_response(message.api_key, version, memoryview(frame)[position:])
