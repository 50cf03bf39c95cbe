"""The second port itself: forms, read-only, names of this machine, jobs, streams."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import pytest

from ledgerstone.server.http import server as http
from ledgerstone.server.http import wire
from ledgerstone.server.http.server import (
    BadRequest,
    HttpRequest,
    HttpServer,
    Page,
    SlowPage,
    Stream,
)

LOCAL = "Host: localhost"
FORM = "Content-Type: application/x-www-form-urlencoded"
JSON = "Content-Type: application/json"


class Echo:
    """A site that lets in whoever sends the cookie `yes`."""

    def __init__(self) -> None:
        self.is_local: bool | None = None
        self.port = 0
        self.streams: list[str] = []
        self.go_on = asyncio.Event()
        self.jobs: list[str] = []

    def opened(self, port: int, *, is_local: bool) -> None:
        self.port, self.is_local = port, is_local

    def is_asset(self, path: str) -> bool:
        return False

    def is_question(self, path: str) -> bool:
        return path == "/question"

    def has_token(self, request: HttpRequest) -> bool:
        return request.headers.get("authorization") == "Bearer yes"

    def check_form(self, request: HttpRequest) -> None:
        if request.headers.get("cookie") != "yes":
            raise BadRequest(403, "no cookie")

    def answer(self, request: HttpRequest) -> Page | SlowPage | Stream | None:
        match request.path:
            case "/site" | "/question":
                return Page(200, f"{request.method} {request.body!r}", headers=(("X-A", "b"),))
            case "/bytes":
                return Page(200, b"\xff\x00", "application/octet-stream")
            case "/slow":
                return self._slow()
            case "/refused":
                return self._refused()
            case "/events":
                return Stream(self._events())
        return None

    def _slow(self) -> SlowPage:
        name = yield lambda: threading.current_thread().name
        try:
            yield self._fail
        except ZeroDivisionError as error:
            return Page(200, f"{name != threading.main_thread().name} {error}")
        return Page(200, "no failure")

    def _fail(self) -> None:
        raise ZeroDivisionError("of the job")

    def _refused(self) -> SlowPage:
        yield None
        raise BadRequest(403, "later")

    async def _events(self) -> AsyncGenerator[bytes, None]:
        self.streams.append("open")
        try:
            yield b"data: one\n\n"
            while True:
                await self.go_on.wait()
                yield b"x" * 65_536
        finally:
            self.streams.append("closed")


class Port:
    """A server with that site, and one connection after the other to it."""

    def __init__(self, site: Echo, port: int, server: HttpServer) -> None:
        self.site, self.port, self.server = site, port, server

    async def connect(self, *lines: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write("\r\n".join([*lines, "", ""]).encode())
        return reader, writer

    async def ask(self, *lines: str, body: bytes = b"") -> str:
        given = [*lines, f"Content-Length: {len(body)}"] if body else lines
        reader, writer = await self.connect(*given)
        writer.write(body)
        answer = (await reader.read()).decode("latin-1")
        writer.close()
        return answer


def on_port(
    play: Callable[[Port], Coroutine[Any, Any, None]],
    *,
    host: str = "127.0.0.1",
    is_readonly: bool = False,
    host_names: tuple[str, ...] = (),
) -> None:
    async def serve() -> None:
        async with asyncio.timeout(30):
            site = Echo()

            def api(request: HttpRequest) -> Page | None:
                return Page(200, "api") if request.path.startswith("/api/") else None

            routes = {"/metrics": lambda: Page(200, "figures")}
            server = HttpServer(
                routes,
                api,
                site=site,
                is_readonly=is_readonly,
                host_names=host_names,
                reads_only="/api/where".__eq__,
            )
            port = (await server.start(socket.create_server((host, 0))))[1]
            await play(Port(site, port, server))
            await server.stop()

    asyncio.run(serve())


def test_site_answers_what_the_api_does_not() -> None:
    async def play(port: Port) -> None:
        page = await port.ask("GET /site HTTP/1.1", LOCAL)
        assert page.startswith("HTTP/1.1 200 OK\r\n")
        assert "X-A: b\r\n" in page
        assert page.endswith("GET b''")
        assert (await port.ask("GET /api/x HTTP/1.1", LOCAL)).endswith("api")
        assert (await port.ask("GET /other HTTP/1.1", LOCAL)).startswith("HTTP/1.1 404 ")
        assert (await port.ask("GET /bytes HTTP/1.1", LOCAL)).endswith("\xff\x00")
        assert (port.site.port, port.site.is_local) == (port.port, True)

    on_port(play)


READS = ("/metrics", "/api/v1/erasures", "/site", "/events", "/nothing")


@pytest.mark.parametrize("path", READS)
def test_foreign_name_reads_nothing_at_all(path: str) -> None:
    # A foreign page whose name points here reads what a browser on this machine may read.
    async def play(port: Port) -> None:
        for method in ("GET", "HEAD"):
            for name in ("evil.example", "evil.example:80", ""):
                answer = await port.ask(f"{method} {path} HTTP/1.1", f"Host: {name}")
                assert answer.startswith("HTTP/1.1 403 "), (method, name)
        assert not port.site.streams

    on_port(play)
    on_port(play, host="0.0.0.0")
    on_port(play, host_names=("broker.example",))


def test_monitors_come_by_an_address_a_name_that_was_allowed_or_none() -> None:
    async def ask(port: Port, *lines: str) -> str:
        return (await port.ask("GET /metrics HTTP/1.1", *lines)).split(" ")[1]

    async def local(port: Port) -> None:
        hosts = ("localhost", "127.0.0.1:80", "[::1]:80", "LOCALHOST:1", "Broker.Example:9644")
        assert [await ask(port, f"Host: {each}") for each in hosts] == ["200"] * len(hosts)
        assert await ask(port, "Host: 192.0.2.1") == "403", "nobody connects to it by that"
        assert await ask(port) == "200", "health checks that know no Host"

    async def anywhere(port: Port) -> None:
        assert await ask(port, "Host: 192.0.2.1:80") == "200"
        assert await ask(port, "Host: broker.example") == "200"
        assert await ask(port, "Host: other.example") == "403"

    async def any_name(port: Port) -> None:
        assert await ask(port, "Host: whatever.example") == "200"

    on_port(local, host_names=("broker.example",))
    on_port(anywhere, host="0.0.0.0", host_names=("broker.example",))
    on_port(any_name, host_names=("*",))


def test_connections_beyond_the_limit_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 2)

    async def play(port: Port) -> None:
        held = [await port.connect("GET /events HTTP/1.1", LOCAL) for _ in range(2)]
        for reader, _ in held:
            await reader.readuntil(b"data: one")
        assert (await port.ask("GET /metrics HTTP/1.1", LOCAL)).startswith("HTTP/1.1 503 ")
        for _, writer in held:
            writer.close()
        while not (await port.ask("GET /metrics HTTP/1.1", LOCAL)).endswith("figures"):
            pass

    on_port(play)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "192.0.2.1", "localhost.x"]
)
def test_foreign_name_reads_no_page_of_this_machine(host: str) -> None:
    async def play(port: Port) -> None:
        assert (await port.ask("GET /site HTTP/1.1", f"Host: {host}")).startswith("HTTP/1.1 403 ")

    on_port(play)


def test_form_is_taken_from_who_the_site_knows() -> None:
    async def play(port: Port) -> None:
        lines = ("POST /site HTTP/1.1", LOCAL, FORM)
        assert (await port.ask(*lines, "Cookie: yes", body=b"a=1")).endswith("POST b'a=1'")
        assert (await port.ask(*lines, body=b"a=1")).startswith("HTTP/1.1 403 ")
        foreign = ("POST /site HTTP/1.1", "Host: evil.example", FORM, "Cookie: yes")
        assert (await port.ask(*foreign, body=b"a=1")).startswith("HTTP/1.1 403 ")
        other = ("POST /site HTTP/1.1", LOCAL, "Content-Type: text/plain", "Cookie: yes")
        assert (await port.ask(*other, body=b"a=1")).startswith("HTTP/1.1 415 ")

    on_port(play)


def test_nothing_is_changed_through_a_readonly_port() -> None:
    async def play(port: Port) -> None:
        form = await port.ask("POST /site HTTP/1.1", LOCAL, FORM, "Cookie: yes", body=b"a=1")
        program = await port.ask("POST /api/x HTTP/1.1", LOCAL, JSON, body=b"{}")
        assert form.startswith("HTTP/1.1 403 ")
        assert program.startswith("HTTP/1.1 403 ")
        assert "ledgerstone.http.readonly" in program
        assert (await port.ask("GET /api/x HTTP/1.1", LOCAL)).endswith("api")

    on_port(play, is_readonly=True)


@pytest.mark.parametrize(
    ("host", "is_readonly"), [("127.0.0.1", False), ("127.0.0.1", True), ("0.0.0.0", True)]
)
def test_form_that_only_asks_is_taken_from_whom_the_site_lets_read(
    host: str, is_readonly: bool
) -> None:
    async def play(port: Port) -> None:
        lines = ("POST /question HTTP/1.1", LOCAL, FORM)
        assert (await port.ask(*lines, "Cookie: yes", body=b"a=1")).endswith("POST b'a=1'")
        assert (await port.ask(*lines, body=b"a=1")).startswith("HTTP/1.1 403 ")
        # JSON is what programs change something with, wherever they send it.
        other = await port.ask("POST /question HTTP/1.1", LOCAL, JSON, "Cookie: yes", body=b"{}")
        assert other.startswith("HTTP/1.1 200 ") != (is_readonly or host == "0.0.0.0")

    on_port(play, host=host, is_readonly=is_readonly)


def test_foreign_name_asks_nothing_on_this_machine() -> None:
    async def play(port: Port) -> None:
        lines = ("POST /question HTTP/1.1", "Host: evil.example", FORM, "Cookie: yes")
        assert (await port.ask(*lines, body=b"a=1")).startswith("HTTP/1.1 403 ")

    on_port(play)


def test_nothing_is_changed_where_other_machines_may_connect() -> None:
    async def play(port: Port) -> None:
        form = await port.ask("POST /site HTTP/1.1", LOCAL, FORM, "Cookie: yes", body=b"a=1")
        assert form.startswith("HTTP/1.1 403 ")
        assert port.site.is_local is False

    on_port(play, host="0.0.0.0")


TOKEN = "Authorization: Bearer yes"


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_program_with_the_token_may_change_things_from_anywhere(host: str) -> None:
    async def play(port: Port) -> None:
        post = ("POST /api/x HTTP/1.1", "Host: broker.example")
        assert (await port.ask(*post, JSON, TOKEN, body=b"{}")).endswith("api")
        for lines in (
            (JSON,),
            (JSON, "Authorization: Bearer no"),
            # A form of somebody's page cannot carry the token; whatever does is no form of ours.
            (FORM, TOKEN),
            (FORM, "Cookie: yes"),
        ):
            refused = await port.ask(*post, *lines, body=b"{}")
            assert refused.startswith("HTTP/1.1 403 "), lines

    on_port(play, host=host)


def test_refusal_off_this_machine_says_what_is_needed() -> None:
    async def play(port: Port) -> None:
        refused = await port.ask("POST /api/x HTTP/1.1", LOCAL, JSON, body=b"{}")
        assert "Authorization: Bearer" in refused

    on_port(play, host="0.0.0.0")


def test_search_is_reading_also_through_a_readonly_port() -> None:
    async def play(port: Port) -> None:
        assert (await port.ask("POST /api/where HTTP/1.1", LOCAL, JSON, body=b"{}")).endswith("api")

    on_port(play, is_readonly=True)


def test_search_of_another_machine_takes_the_token() -> None:
    async def play(port: Port) -> None:
        post = ("POST /api/where HTTP/1.1", LOCAL, JSON)
        assert (await port.ask(*post, TOKEN, body=b"{}")).endswith("api")
        assert (await port.ask(*post, body=b"{}")).startswith("HTTP/1.1 403 ")

    on_port(play, host="0.0.0.0", is_readonly=True)


def test_job_of_a_page_runs_in_a_thread_and_its_failure_comes_back() -> None:
    async def play(port: Port) -> None:
        assert (await port.ask("GET /slow HTTP/1.1", LOCAL)).endswith("True of the job")
        assert (await port.ask("GET /refused HTTP/1.1", LOCAL)).startswith("HTTP/1.1 403 ")

    on_port(play)


# -- streams --------------------------------------------------------------------------------------


async def first_event(reader: asyncio.StreamReader) -> str:
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"text/event-stream" in head
    return (await reader.readuntil(b"\n\n")).decode()


async def closed(port: Port, count: int) -> None:
    while port.site.streams.count("closed") < count:
        await asyncio.sleep(0)


def test_stream_goes_on_until_its_reader_leaves() -> None:
    async def play(port: Port) -> None:
        reader, writer = await port.connect("GET /events HTTP/1.1", LOCAL)
        assert await first_event(reader) == "data: one\n\n"
        assert port.site.streams == ["open"]

        writer.close()
        await closed(port, 1)

    on_port(play)


def test_stream_ends_when_the_server_stops() -> None:
    async def play(port: Port) -> None:
        reader, writer = await port.connect("GET /events HTTP/1.1", LOCAL)
        await first_event(reader)

        await port.server.stop()

        assert await reader.read() == b""
        await closed(port, 1)
        writer.close()

    on_port(play)


def test_reader_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SLOW_READER_S", 0.05)

    async def play(port: Port) -> None:
        reader, writer = await port.connect("GET /events HTTP/1.1", LOCAL)
        await first_event(reader)
        writer.transport.pause_reading()  # type: ignore[attr-defined]

        port.site.go_on.set()
        await closed(port, 1)
        writer.transport.abort()

    on_port(play)


def test_so_many_streams_are_open_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_STREAMS", 2)

    async def play(port: Port) -> None:
        streams = [await port.connect("GET /events HTTP/1.1", LOCAL) for _ in range(2)]
        for reader, _ in streams:
            await first_event(reader)

        refused = await port.ask("GET /events HTTP/1.1", LOCAL)
        streams[0][1].close()
        await closed(port, 1)
        while (again := await port.connect("GET /events HTTP/1.1", LOCAL))[0].at_eof():
            await asyncio.sleep(0)

        assert refused.startswith("HTTP/1.1 503 ")
        assert await first_event(again[0]) == "data: one\n\n"
        for _, writer in (*streams, again):
            writer.close()

    on_port(play)


def test_stream_is_asked_for_with_get_alone() -> None:
    async def play(port: Port) -> None:
        assert (await port.ask("HEAD /events HTTP/1.1", LOCAL)).startswith("HTTP/1.1 405 ")
        assert port.site.streams == []

    on_port(play)


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("/api/x", "Origin: http://["),
        ("/api/x\nSet-Cookie:a=b", "Origin: http://localhost"),
        ("/api/x\rSet-Cookie:a=b", "Origin: http://localhost"),
        ("/api/x", "Origin: http://localhost\nX-A: b"),
    ],
)
def test_head_that_cannot_be_read_is_answered_as_such(path: str, header: str) -> None:
    async def play(port: Port) -> None:
        answer = await port.ask(f"POST {path} HTTP/1.1", LOCAL, JSON, header, body=b"{}")
        assert answer.startswith("HTTP/1.1 400 ")

    on_port(play)


def test_header_never_holds_a_line_end() -> None:
    with pytest.raises(AssertionError):
        wire.encode_page(
            Page(200, "", headers=(("Location", "/x\r\nSet-Cookie: a=b"),)), with_body=True
        )
