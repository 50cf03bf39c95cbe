"""A second port for people, monitors and programs: pages and a small API. Grade S.

Small on purpose: one request per connection, everything bounded. Answers come from functions that
were handed in; nothing here knows a broker. What changes something is taken only where the port is
not called read-only: from a program that carries the token, which no web page has; or, where the
port is bound to this machine, from any program (a web page cannot send JSON here without being
asked first) or a form that the site vouches for. Whoever asks for anything without the token must
call this port by a name of its own, so that a foreign page cannot reach it through another. Where
there is an authorizer, a `Door` finds out who asks, and all of them need rights instead.
"""

import asyncio
import contextlib
import functools
import ipaddress
import logging
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ledgerstone.server.http.messages import API as API
from ledgerstone.server.http.messages import EVENTS as EVENTS
from ledgerstone.server.http.messages import LOGIN as LOGIN
from ledgerstone.server.http.messages import LOGOUT as LOGOUT
from ledgerstone.server.http.messages import Api as Api
from ledgerstone.server.http.messages import BadRequest as BadRequest
from ledgerstone.server.http.messages import Door as Door
from ledgerstone.server.http.messages import HttpLine as HttpLine
from ledgerstone.server.http.messages import HttpRequest as HttpRequest
from ledgerstone.server.http.messages import Job as Job
from ledgerstone.server.http.messages import Page as Page
from ledgerstone.server.http.messages import PagePause as PagePause
from ledgerstone.server.http.messages import Rerouted as Rerouted
from ledgerstone.server.http.messages import Routes as Routes
from ledgerstone.server.http.messages import Site as Site
from ledgerstone.server.http.messages import SlowPage as SlowPage
from ledgerstone.server.http.messages import Stream as Stream
from ledgerstone.server.http.wire import (
    MAX_HEAD_BYTES,
    address_in,
    body_size,
    content_type_of,
    encode_head,
    encode_page,
    name_in,
    read_body,
    read_head,
)
from ledgerstone.server.throttle import LogThrottle, shown

if TYPE_CHECKING:
    import ssl

    from ledgerstone.server.http.tls_accepting import TlsAccepting

_LOG: Final = logging.getLogger(__name__)

READ_TIMEOUT_S: Final = 10.0
# Streams of events open at a time; a browser has one for each page that is looked at.
MAX_STREAMS: Final = 64
# Each may send a body and be sent a page; streams are among them.
MAX_CONNECTIONS: Final = 256
TURNED_AWAY_S: Final = 1.0
# What a reader of events gets to take the next one, once its socket is full.
SLOW_READER_S: Final = 10.0
# A name, a password, and where to go next.
MAX_LOGIN_BYTES: Final = 64 << 10
_HSTS: Final = ("Strict-Transport-Security", "max-age=31536000")
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"


class HttpServer:
    def __init__(
        self,
        routes: Routes,
        api: Api | None = None,
        *,
        site: Site | None = None,
        is_readonly: bool = False,
        host_names: Sequence[str] = (),
        reads_only: Callable[[str], bool] = lambda path: False,
        door: Door | None = None,
        check_route: Callable[[HttpRequest, Page], Page] = lambda request, page: page,
    ) -> None:
        """`door` is there where there is an authorizer; `check_route` then decides what of a
        monitor's page is shown. `host_names` are those that people and monitors may call this
        port by, beside addresses; `*` is any."""
        self._routes = routes
        self._api = api
        self._site = site
        self._is_readonly = is_readonly
        self._host_names = frozenset(name.lower() for name in host_names)
        self._throttle = LogThrottle()
        # Of a path: whether a POST to it changes nothing.
        self._reads_only = reads_only
        self._door = door
        self._check_route = check_route
        self._server: asyncio.Server | TlsAccepting | None = None
        self._connection_count = 0
        self._is_local = False
        # By the task of its connection: the one that sends the frames.
        self._streams: dict[asyncio.Task[Any], asyncio.Task[None]] = {}
        # One at a time: pages must not take the threads that sync files.
        self._job_turn = asyncio.Semaphore(1)

    async def start(
        self, sock: socket.socket, tls: Callable[[], "ssl.SSLContext"] | None = None
    ) -> tuple[str, int]:
        """Serves a socket that listens already; returns its address. `tls` has the context of a
        new connection."""
        address = sock.getsockname()
        self._is_local = ipaddress.ip_address(address[0]).is_loopback
        if self._site is not None:
            self._site.opened(address[1], is_local=self._is_local)
        if self._door is not None:
            self._door.opened(address[1])
        if tls is None:
            self._server = await asyncio.start_server(self._serve, sock=sock, limit=MAX_HEAD_BYTES)
        else:
            # A plain port does without it.
            from ledgerstone.server.http.tls_accepting import TlsAccepting

            self._server = TlsAccepting(sock, tls, self._serve)
            self._server.start()
        return address[0], address[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for pump in self._streams.values():
                pump.cancel()
            if self._streams:
                await asyncio.wait(list(self._streams), timeout=READ_TIMEOUT_S)
            await self._server.wait_closed()
        if self._door is not None:
            self._door.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connection_count += 1
        try:
            if self._connection_count > 2 * MAX_CONNECTIONS:
                writer.transport.abort()
            elif self._connection_count > MAX_CONNECTIONS:
                await _turn_away(reader, writer)
            else:
                await self._converse(reader, writer)
        finally:
            self._connection_count -= 1
        writer.close()
        with contextlib.suppress(ConnectionError, TimeoutError):
            await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            method, line = "", _line_of(writer)
            common: tuple[tuple[str, str], ...] = ()
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    request = await read_head(reader)
                    if line.is_secure and name_in(request.headers.get("host", "")) != "localhost":
                        # It would hold for whatever else is served on this machine.
                        common = (_HSTS,)
                    self._check_host(request)
                    if self._door is not None:
                        request = await self._door.admit(request, line)
                    if request.method == "POST":
                        size = body_size(request.headers)
                        # Before the body: who may not change anything costs no memory.
                        self._check_may_send(request, size)
                        request = request._replace(body=await read_body(reader, size))
                method, page = request.method, await self._answer(request, line)
            except BadRequest as error:
                page = Page(error.status, f"{error}\n", headers=error.headers)
            if isinstance(page, Stream):
                page = page._replace(headers=(*page.headers, *common))
                await self._stream(reader, writer, page)
            else:
                page = page._replace(headers=(*page.headers, *common))
                writer.write(encode_page(page, with_body=method != "HEAD"))
                async with asyncio.timeout(READ_TIMEOUT_S):
                    await writer.drain()

    async def _stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream
    ) -> None:
        """Until the reader leaves, takes nothing for too long, or the server stops."""
        # Who reads events has said all they have to say: whatever comes now is the end.
        gone = asyncio.create_task(reader.read(1))
        pump = asyncio.create_task(_pump(writer, stream))
        connection = asyncio.current_task()
        assert connection is not None
        self._streams[connection] = pump
        connection.add_done_callback(self._streams.pop)
        await asyncio.wait((gone, pump), return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        pump.cancel()
        (_, failure) = await asyncio.gather(gone, pump, return_exceptions=True)
        if isinstance(failure, TimeoutError):
            # It takes nothing, so it will not take what is still to be sent either.
            writer.transport.abort()
        elif isinstance(failure, Exception) and not isinstance(failure, OSError):
            _LOG.error("stream failed", exc_info=failure)

    async def _answer(self, request: HttpRequest, line: HttpLine) -> Page | Stream:
        if request.method not in ("GET", "HEAD", "POST"):
            return Page(405, "only GET, HEAD and POST\n")
        if self._door is None:
            return await self._answer_admitted(request)
        answer = await self._door.answer(request, line)
        if not isinstance(answer, Rerouted):
            return await self._answer_admitted(request) if answer is None else answer
        page = await self._answer_admitted(answer.request)
        if isinstance(page, Page) and page.status == 200:
            page = page._replace(status=answer.status, headers=(*page.headers, *answer.headers))
        return page

    async def _answer_admitted(self, request: HttpRequest) -> Page | Stream:
        page: Page | Stream | None
        try:
            route = self._routes.get(request.path) if request.method != "POST" else None
            page = await self._monitored(request, route) if route is not None else None
            if page is None and self._api is not None:
                answer = self._api(request)
                page = None if answer is None else await self._made(answer)
            if page is None and self._site is not None:
                page = await self._seen(self._site, request)
        except BadRequest:
            raise
        except Exception as error:  # noqa: BLE001 - a border: a bad page must not end the broker
            kind = f"page failed {type(error).__name__}"
            suppressed = self._throttle.admit(kind, int(time.monotonic() * 1000))
            if suppressed is not None:
                _LOG.exception("%s path=%s suppressed=%d", kind, shown(request.path), suppressed)
            return Page(500, "the page failed; the log says why\n")
        if page is not None:
            return page
        if request.path in self._routes:
            return Page(405, "only GET and HEAD\n")
        return Page(404, "try " + " ".join(sorted(self._routes)) + "\n")

    async def _monitored(self, request: HttpRequest, route: Callable[[], Page | SlowPage]) -> Page:
        if self._door is not None:
            # Before it is made: who may not have it is not to cost what it costs.
            self._check_route(request, Page(200, ""))
        page = await self._made(route())
        return page if self._door is None else self._check_route(request, page)

    async def _seen(self, site: Site, request: HttpRequest) -> Page | Stream | None:
        seen = site.answer(request)
        if not isinstance(seen, Stream):
            return None if seen is None else await self._made(seen)
        if request.method != "GET":
            raise BadRequest(405, "only GET")
        if len(self._streams) >= MAX_STREAMS:
            raise BadRequest(503, f"{MAX_STREAMS} streams are open already")
        return seen

    async def _made(self, page: Page | SlowPage) -> Page:
        if isinstance(page, Page):
            return page
        outcome: Callable[[], Job | PagePause | None] = page.__next__
        while True:
            try:
                job = outcome()
            except StopIteration as end:
                made: Page = end.value
                return made
            if job is None or isinstance(job, PagePause):
                await asyncio.sleep(0 if job is None else job.seconds)
                outcome = page.__next__
            else:
                outcome = await self._performed(job, page)

    async def _performed(self, job: Job, page: SlowPage) -> Callable[[], Job | PagePause | None]:
        """How the page is told what became of its job."""
        async with self._job_turn:
            try:
                result = await asyncio.to_thread(job)
            except Exception as error:  # noqa: BLE001 - it is the page's to catch
                return functools.partial(page.throw, error)
        return functools.partial(page.send, result)

    def _check_may_send(self, request: HttpRequest, size: int) -> None:
        """A form that only asks may come from whoever may read; the rest changes something."""
        site = self._site
        if self._door is not None:
            self._check_admitted_may_send(request, size)
            return
        if site is None or content_type_of(request) != _FORM or not site.is_question(request.path):
            self._check_may_change(request)
            return
        site.check_form(request)

    def _check_admitted_may_send(self, request: HttpRequest, size: int) -> None:
        """Of somebody who is known; rights are looked at later. Programs send JSON, which no page
        can without being asked first, and say who they are in each request: a cookie does not
        count there. Pages send forms, and each has a secret in it."""
        path, content_type = request.path, content_type_of(request)
        wanted = _JSON if path.startswith(API) else _FORM
        if content_type != wanted:
            raise BadRequest(415, f"Content-Type must be {wanted}")
        if path in (LOGIN, LOGOUT):
            if size > MAX_LOGIN_BYTES:
                raise BadRequest(413, f"a login has at most {MAX_LOGIN_BYTES} bytes")
            return
        is_question = self._site is not None and self._site.is_question(path)
        if self._is_readonly and not is_question and not self._reads_only(path):
            raise BadRequest(403, "nothing is changed through this port: ledgerstone.http.readonly")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise BadRequest(403, "this was not sent by a page of this broker")
        if wanted == _FORM and not request.asker.csrf:
            raise BadRequest(403, "whoever sends a form has to log in")

    def _check_host(self, request: HttpRequest) -> None:
        """A page of somebody else can have its own name point here, and then reads what a browser
        on this machine may read. So whoever comes by a name must use one of ours."""
        host = request.headers.get("host")
        if host is None and request.method in ("GET", "HEAD"):
            # No browser leaves it out; some health checks do.
            return
        if self._site is not None and self._site.has_token(request):
            # No page has it, so no page sent this.
            return
        name = name_in(host or "")
        if name == "localhost" or name in self._host_names or "*" in self._host_names:
            return
        address = address_in(name)
        # An address is nobody's name. On a port of this machine it must be this machine's.
        if address is None or (self._is_local and not address.is_loopback):
            reason = "the Host header names another machine; ledgerstone.http.hosts can allow it"
            raise BadRequest(403, reason)

    def _check_may_change(self, request: HttpRequest) -> None:
        if self._is_readonly and not self._reads_only(request.path):
            raise BadRequest(403, "nothing is changed through this port: ledgerstone.http.readonly")
        content_type = content_type_of(request)
        if self._site is not None and content_type == _JSON and self._site.has_token(request):
            return
        if not self._is_local:
            reason = (
                "ledgerstone.http.listener is no loopback address: this takes a program with the "
                "token, Authorization: Bearer …, that the broker wrote to its ready file"
            )
            raise BadRequest(403, reason)
        if content_type == _FORM and self._site is not None:
            self._site.check_form(request)
        elif content_type != _JSON:
            raise BadRequest(415, "Content-Type must be application/json")


def _line_of(writer: asyncio.StreamWriter) -> HttpLine:
    peer = writer.get_extra_info("peername")
    host = peer[0] if peer else ""
    tls = writer.get_extra_info("ssl_object")
    return (
        HttpLine(host) if tls is None else HttpLine(host, True, tls.getpeercert(binary_form=True))
    )


async def _pump(writer: asyncio.StreamWriter, stream: Stream) -> None:
    head = encode_head(200, "text/event-stream", (("Cache-Control", "no-store"), *stream.headers))
    writer.write(head)
    async with contextlib.aclosing(stream.frames) as frames:
        async for frame in frames:
            writer.write(frame)
            async with asyncio.timeout(SLOW_READER_S):
                await writer.drain()


async def _turn_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says that there are too many. What was sent is taken first: an answer beside bytes that
    nobody read does not arrive."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(TURNED_AWAY_S):
            await reader.read(MAX_HEAD_BYTES)
    writer.write(encode_page(Page(503, "too many connections\n"), with_body=True))
