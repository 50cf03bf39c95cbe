"""A second port for people, monitors and programs: pages and a small API. Grade S.

Small on purpose: one request per connection, everything bounded. Answers come from functions that
were handed in; nothing here knows a broker. What changes something is taken only where the port is
bound to this machine, from a program (a web page cannot send JSON here without being asked first),
and under a name of this machine, so that a foreign page cannot reach it through its own name.
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

_LOG: Final = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 8192
# A key that is to be erased may be as large as a record; only who may change something sends one.
MAX_BODY_BYTES: Final = 4 << 20
READ_TIMEOUT_S: Final = 10.0
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Page(NamedTuple):
    status: int
    body: str
    content_type: str = "text/plain; charset=utf-8"


class HttpRequest(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # by lower-case name
    body: bytes = b""


# A page that takes long to make: at each yield others have their turn.
SlowPage = Generator[None, None, Page]
Routes = Mapping[str, Callable[[], Page | SlowPage]]
# Answers what no route has; None leaves it to be not found.
Api = Callable[[HttpRequest], Page | None]


class BadRequest(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpServer:
    def __init__(self, routes: Routes, api: Api | None = None) -> None:
        self._routes = routes
        self._api = api
        self._server: asyncio.Server | None = None
        self._takes_changes = False

    async def start(self, sock: socket.socket) -> tuple[str, int]:
        """Serves a socket that listens already; returns its address."""
        self._server = await asyncio.start_server(self._serve, sock=sock, limit=MAX_HEAD_BYTES)
        address = sock.getsockname()
        self._takes_changes = ipaddress.ip_address(address[0]).is_loopback
        return address[0], address[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            method = ""
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    request = await _read_head(reader)
                    if request.method == "POST":
                        size = _body_size(request.headers)
                        # Before the body: who may not change anything costs no memory.
                        self._check_may_change(request)
                        request = request._replace(body=await _read_body(reader, size))
                method, page = request.method, await self._answer(request)
            except BadRequest as error:
                page = Page(error.status, f"{error}\n")
            writer.write(_encode(page, with_body=method != "HEAD"))
            async with asyncio.timeout(READ_TIMEOUT_S):
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError, TimeoutError):
            await writer.wait_closed()

    async def _answer(self, request: HttpRequest) -> Page:
        if request.method not in ("GET", "HEAD", "POST"):
            return Page(405, "only GET, HEAD and POST\n")
        try:
            route = self._routes.get(request.path) if request.method != "POST" else None
            page = await _made(route()) if route is not None else None
            if page is None and self._api is not None:
                page = self._api(request)
        except Exception:  # noqa: BLE001 - a border: one bad page must not end the broker
            _LOG.exception("page failed path=%s", request.path)
            return Page(500, "the page failed; the log says why\n")
        if page is not None:
            return page
        if request.path in self._routes:
            return Page(405, "only GET and HEAD\n")
        return Page(404, "try " + " ".join(sorted(self._routes)) + "\n")

    def _check_may_change(self, request: HttpRequest) -> None:
        if not self._takes_changes:
            reason = "changes are taken only where ledgerstone.http.listener is a loopback address"
            raise BadRequest(403, reason)
        if not _names_this_machine(request.headers.get("host", "")):
            raise BadRequest(403, "the Host header names another machine")
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise BadRequest(415, "Content-Type must be application/json")


async def _made(page: Page | SlowPage) -> Page:
    if isinstance(page, Page):
        return page
    while True:
        try:
            next(page)
        except StopIteration as end:
            made: Page = end.value
            return made
        await asyncio.sleep(0)


async def _read_head(reader: asyncio.StreamReader) -> HttpRequest:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise BadRequest(400, "not an HTTP/1 request") from error
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
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
    return HttpRequest(words[0], path, pairs, headers)


def _body_size(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(411, "a body needs a Content-Length")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()) or len(length) > 9:
        raise BadRequest(400, "Content-Length is no number")
    if int(length) > MAX_BODY_BYTES:
        raise BadRequest(413, f"a body of {length} bytes, at most {MAX_BODY_BYTES} are taken")
    return int(length)


async def _read_body(reader: asyncio.StreamReader, size: int) -> bytes:
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        raise BadRequest(400, "the body ends early") from error


def _names_this_machine(host: str) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    name = name.removeprefix("[").removesuffix("]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _encode(page: Page, *, with_body: bool) -> bytes:
    body = page.body.encode()
    head = (
        f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "\r\n"
    ).encode("latin-1")
    return head + body if with_body else head
