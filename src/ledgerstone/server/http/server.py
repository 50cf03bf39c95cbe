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
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

from ledgerstone.server.http.asker import ANYBODY, Asker
from ledgerstone.server.throttle import LogThrottle, shown

if TYPE_CHECKING:
    import ssl

    from ledgerstone.server.http.tls_accepting import TlsAccepting

_LOG: Final = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 8192
# A key that is to be erased may be as large as a record; only who may change something sends one.
MAX_BODY_BYTES: Final = 4 << 20
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
LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
EVENTS: Final = "/events"
API: Final = "/api/"
_HSTS: Final = ("Strict-Transport-Security", "max-age=31536000")
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
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


class Page(NamedTuple):
    status: int
    body: str | bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class HttpRequest(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # by lower-case name
    body: bytes = b""
    asker: Asker = ANYBODY


class Stream(NamedTuple):
    """Events without an end: frames are made only while somebody reads them."""

    frames: AsyncGenerator[bytes, None]
    headers: tuple[tuple[str, str], ...] = ()


class PagePause(NamedTuple):
    """A page waits for something that others do."""

    seconds: float


Job = Callable[[], object]
# A page that takes long to make: at each yield others have their turn. A job that is yielded runs
# in a thread, and what it returns or raises comes back from the yield.
SlowPage = Generator[Job | PagePause | None, Any, Page]
Routes = Mapping[str, Callable[[], Page | SlowPage]]
# Answers what no route has; None leaves it to be not found.
Api = Callable[[HttpRequest], Page | SlowPage | None]


class BadRequest(Exception):
    def __init__(self, status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


class Line(NamedTuple):
    """What a request came over. The certificate is the other side's, if it showed one."""

    host: str
    is_secure: bool = False
    certificate: bytes | None = None


class Rerouted(NamedTuple):
    """Answered by the page of another request, under a status of its own."""

    request: HttpRequest
    status: int
    headers: tuple[tuple[str, str], ...] = ()


class Door(Protocol):
    """Finds out who asks, where they are asked for rights."""

    def opened(self, port: int) -> None: ...

    async def admit(self, request: HttpRequest, line: Line) -> HttpRequest:
        """The request with its asker; BadRequest for who must log in first."""
        ...

    async def answer(self, request: HttpRequest, line: Line) -> Page | Rerouted | None:
        """Logins; None for all else."""
        ...

    def stop(self) -> None: ...


class Site(Protocol):
    """The pages for people: what neither a route nor the API answers."""

    def opened(self, port: int, *, is_local: bool) -> None:
        """Where it is reached; not `is_local` where other machines may."""

    def is_asset(self, path: str) -> bool:
        """Whether it is a file of the pages, which everybody may have."""

    def is_question(self, path: str) -> bool:
        """Whether a form sent there only asks: who may read may send it."""

    def has_token(self, request: HttpRequest) -> bool:
        """Whether it carries the token that was shown to whoever started the broker."""

    def check_form(self, request: HttpRequest) -> None:
        """Before the body of a form is read; BadRequest for whoever may not send one."""

    def answer(self, request: HttpRequest) -> Page | SlowPage | Stream | None: ...


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
                    request = await _read_head(reader)
                    if line.is_secure and _name_in(request.headers.get("host", "")) != "localhost":
                        # It would hold for whatever else is served on this machine.
                        common = (_HSTS,)
                    self._check_host(request)
                    if self._door is not None:
                        request = await self._door.admit(request, line)
                    if request.method == "POST":
                        size = _body_size(request.headers)
                        # Before the body: who may not change anything costs no memory.
                        self._check_may_send(request, size)
                        request = request._replace(body=await _read_body(reader, size))
                method, page = request.method, await self._answer(request, line)
            except BadRequest as error:
                page = Page(error.status, f"{error}\n", headers=error.headers)
            if isinstance(page, Stream):
                page = page._replace(headers=(*page.headers, *common))
                await self._stream(reader, writer, page)
            else:
                page = page._replace(headers=(*page.headers, *common))
                writer.write(_encode(page, with_body=method != "HEAD"))
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

    async def _answer(self, request: HttpRequest, line: Line) -> Page | Stream:
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
        if site is None or _content_type(request) != _FORM or not site.is_question(request.path):
            self._check_may_change(request)
            return
        site.check_form(request)

    def _check_admitted_may_send(self, request: HttpRequest, size: int) -> None:
        """Of somebody who is known; rights are looked at later. Programs send JSON, which no page
        can without being asked first, and say who they are in each request: a cookie does not
        count there. Pages send forms, and each has a secret in it."""
        path, content_type = request.path, _content_type(request)
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
        name = _name_in(host or "")
        if name == "localhost" or name in self._host_names or "*" in self._host_names:
            return
        address = _address_in(name)
        # An address is nobody's name. On a port of this machine it must be this machine's.
        if address is None or (self._is_local and not address.is_loopback):
            reason = "the Host header names another machine; ledgerstone.http.hosts can allow it"
            raise BadRequest(403, reason)

    def _check_may_change(self, request: HttpRequest) -> None:
        if self._is_readonly and not self._reads_only(request.path):
            raise BadRequest(403, "nothing is changed through this port: ledgerstone.http.readonly")
        content_type = _content_type(request)
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


def _line_of(writer: asyncio.StreamWriter) -> Line:
    peer = writer.get_extra_info("peername")
    host = peer[0] if peer else ""
    tls = writer.get_extra_info("ssl_object")
    return Line(host) if tls is None else Line(host, True, tls.getpeercert(binary_form=True))


async def _pump(writer: asyncio.StreamWriter, stream: Stream) -> None:
    head = _head(200, "text/event-stream", (("Cache-Control", "no-store"), *stream.headers))
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
    writer.write(_encode(Page(503, "too many connections\n"), with_body=True))


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


def _content_type(request: HttpRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


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


def _name_in(host: str) -> str:
    """What a Host header names, without the port."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.removeprefix("[").removesuffix("]").lower()


def _address_in(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _encode(page: Page, *, with_body: bool) -> bytes:
    body = page.body.encode() if isinstance(page.body, str) else page.body
    headers = (("Content-Length", str(len(body))), *page.headers)
    head = _head(page.status, page.content_type, headers)
    return head + body if with_body else head


def _head(status: int, content_type: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        f"Content-Type: {content_type}",
        "Connection: close",
        "X-Content-Type-Options: nosniff",
        *(f"{name}: {value}" for name, value in headers),
    ]
    assert not any("\r" in line or "\n" in line for line in lines), lines
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
