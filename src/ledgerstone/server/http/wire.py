"""HTTP/1 as bytes: heads and bodies read within bounds, answers written. Grade S."""

import asyncio
import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from ledgerstone.server.http.messages import BadRequest, HttpRequest, Page

MAX_HEAD_BYTES: Final = 8192
# A key that is to be erased may be as large as a record; only who may change something sends one.
MAX_BODY_BYTES: Final = 4 << 20
_REASONS: Final = {
    200: "OK",
    303: "See Other",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


async def read_head(reader: asyncio.StreamReader) -> HttpRequest:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise BadRequest(400, "not an HTTP/1 request") from error
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    if any("\r" in line or "\n" in line for line in (first, *lines)):
        # A path goes into the headers of answers.
        raise BadRequest(400, "half a line end")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(400, "not an HTTP/1 request")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest(400, "a header line without a colon")
        headers[name.strip().lower()] = value.strip()
    path, _, query = words[1].partition("?")
    try:
        pairs = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=20))
    except ValueError as error:
        raise BadRequest(400, f"query: {error}") from error
    try:
        # Looked at here, since many compare it with the Host later.
        urlsplit(headers.get("origin", ""))
    except ValueError as error:
        raise BadRequest(400, "Origin is no address of a page") from error
    return HttpRequest(words[0], path, pairs, headers)


def content_type_of(request: HttpRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def body_size(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(411, "a body needs a Content-Length")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()) or len(length) > 9:
        raise BadRequest(400, "Content-Length is no number")
    if int(length) > MAX_BODY_BYTES:
        raise BadRequest(413, f"a body of {length} bytes, at most {MAX_BODY_BYTES} are taken")
    return int(length)


async def read_body(reader: asyncio.StreamReader, size: int) -> bytes:
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        raise BadRequest(400, "the body ends early") from error


def name_in(host: str) -> str:
    """What a Host header names, without the port."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.removeprefix("[").removesuffix("]").lower()


def address_in(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def encode_page(page: Page, *, with_body: bool) -> bytes:
    body = page.body.encode() if isinstance(page.body, str) else page.body
    headers = (("Content-Length", str(len(body))), *page.headers)
    head = encode_head(page.status, page.content_type, headers)
    return head + body if with_body else head


def encode_head(status: int, content_type: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        f"Content-Type: {content_type}",
        "Connection: close",
        "X-Content-Type-Options: nosniff",
        *(f"{name}: {value}" for name, value in headers),
    ]
    assert not any("\r" in line or "\n" in line for line in lines), lines
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
