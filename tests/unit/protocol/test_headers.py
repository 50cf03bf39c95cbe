"""Request and response headers."""

import io

import pytest
from kio.schema.request_header.v1.header import RequestHeader as KioHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioHeader2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from ledgerstone.protocol.headers import (
    RequestHeader,
    decode_request_header,
    encode_request_header,
    encode_response_header,
    peek_correlation_id,
    response_body_position,
)
from ledgerstone.protocol.wire import MalformedMessage


@pytest.mark.parametrize("client_id", [None, "", "client-ä"])
@pytest.mark.parametrize(("version", "kio_header"), [(8, KioHeader1), (9, KioHeader2)])
def test_request_header_has_the_bytes_kio_gives_it(
    version: int, kio_header: type[KioHeader1 | KioHeader2], client_id: str | None
) -> None:
    buffer = io.BytesIO()
    theirs = kio_header(
        request_api_key=i16(0),
        request_api_version=i16(version),
        correlation_id=i32(77),
        client_id=client_id,
    )
    entity_writer(kio_header)(buffer, theirs)
    header = RequestHeader(0, version, 77, client_id)

    assert encode_request_header(header) == buffer.getvalue()
    assert decode_request_header(buffer.getvalue() + b"body") == (header, len(buffer.getvalue()))


def test_tags_of_a_request_header_are_skipped() -> None:
    header = encode_request_header(RequestHeader(3, 12, 1, "c"))
    tagged = header[:-1] + b"\x01\x09\x02xy"

    decoded, position = decode_request_header(tagged)

    assert decoded == RequestHeader(3, 12, 1, "c")
    assert position == len(tagged)


def test_api_versions_is_always_answered_with_header_0() -> None:
    assert encode_response_header(18, 4, 5) == b"\x00\x00\x00\x05"
    assert encode_response_header(3, 12, 5) == b"\x00\x00\x00\x05\x00"
    assert encode_response_header(3, 8, 5) == b"\x00\x00\x00\x05"


def test_response_body_begins_after_the_tags() -> None:
    frame = b"\x00\x00\x00\x05" + b"\x01\x00\x01z" + b"body"

    assert peek_correlation_id(frame) == 5
    assert response_body_position(3, 12, frame) == 8
    assert response_body_position(3, 8, frame) == 4
    assert response_body_position(18, 4, frame) == 4


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        (b"", "fixed part"),
        (bytes(9), "fixed part"),
        (b"\x00\x03\x00\x00" + bytes(4) + b"\xff\xfe", "client_id"),
        (b"\x00\x03\x00\x00" + bytes(4) + b"\x00\x05abc", "client_id"),
        (b"\x00\x03\x00\x00" + bytes(4) + b"\x00\x02\xff\xff", "client_id"),
        (b"\x00\x03\x00\x0c" + bytes(4) + b"\xff\xff", "tags"),
        (b"\x00\x03\x00\x0c" + bytes(4) + b"\xff\xff\x01\x05\x7f", "tags"),
    ],
)
def test_broken_request_header_names_the_field(frame: bytes, field: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode_request_header(frame)

    assert caught.value.field == field


def test_response_too_short_for_a_correlation_id_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        peek_correlation_id(b"\x00\x00")
