"""A second port for people and monitors: /metrics, /livez, /readyz. Grade S.

Small on purpose: GET and HEAD of a few fixed paths, one request per connection, everything
bounded. Answers come from functions that were handed in; nothing here knows a broker.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

_LOG: Final = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 8192
READ_TIMEOUT_S: Final = 10.0
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Page(NamedTuple):
    status: int
    body: str
    content_type: str = "text/plain; charset=utf-8"


Routes = Mapping[str, Callable[[], Page]]


class HttpServer:
    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listens; returns the address really used, which differs when the port was 0."""
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=MAX_HEAD_BYTES, reuse_address=True
        )
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            head = b""
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass
            method, page = self._answer(head)
            writer.write(_encode(page, with_body=method != "HEAD"))
            async with asyncio.timeout(READ_TIMEOUT_S):
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError, TimeoutError):
            await writer.wait_closed()

    def _answer(self, head: bytes) -> tuple[str, Page]:
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(line) != 3 or not line[2].startswith("HTTP/1."):
            return "", Page(400, "not an HTTP/1 request\n")
        method, target, _ = line
        if method not in ("GET", "HEAD"):
            return method, Page(405, "only GET and HEAD\n")
        route = self._routes.get(target.partition("?")[0])
        if route is None:
            return method, Page(404, "try " + " ".join(sorted(self._routes)) + "\n")
        try:
            return method, route()
        except Exception:  # noqa: BLE001 - a border: one bad page must not end the broker
            _LOG.exception("page failed path=%s", target)
            return method, Page(500, "the page failed; the log says why\n")


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
