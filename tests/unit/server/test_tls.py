"""TLS between real sockets and the real runtime."""

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from ledgerstone.fs import FileSlice
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.security.principal import ANONYMOUS
from ledgerstone.server import connections as connections_module
from ledgerstone.server.accepting import Listening
from ledgerstone.server.runtime import Runtime
from ledgerstone.server.tls_contexts import TlsContexts
from ledgerstone.server.tls_transport import MAX_GREETING_BYTES, PART_BYTES, TlsTransport
from ledgerstone.system import SystemClock
from tests.kit.certificates import Authority, Issued
from tests.kit.in_process import InProcess, frame_of, newest_version
from tests.kit.logs import batch
from tests.unit.server.asks import create_topic, end_offset, fetch, produce, write
from tests.unit.server.test_runtime import HELLO as ASK

TIMEOUT_S = 20
BIG_FETCH = fetch(partition_max_bytes=1 << 24, max_bytes=1 << 24)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def directory(tmp_path: Path, authority: Authority) -> Path:
    authority.issue("broker").write(tmp_path / "broker.pem")
    authority.write(tmp_path / "ca.pem")
    return tmp_path


def machine_of(directory: Path, **settings: str) -> InProcess:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return InProcess(
        settings={
            "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093",
            "ssl.keystore.location": str(directory / "broker.pem"),
            "ssl.truststore.location": str(directory / "ca.pem"),
            **given,
        }
    )


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *messages: ApiMessage, version: int | None = None) -> None:
        numbers = [newest_version(each) if version is None else version for each in messages]
        self.writer.write(b"".join(map(frame_of, messages, numbers)))

    async def answer(self) -> bytes:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    @property
    def tls(self) -> ssl.SSLObject:
        found: ssl.SSLObject = self.writer.get_extra_info("ssl_object")
        return found

    def close(self) -> None:
        self.writer.transport.abort()


class Served:
    def __init__(self, machine: InProcess) -> None:
        config = machine.broker.config
        self.contexts = TlsContexts(config, SystemClock())
        self.sock = socket.create_server(("127.0.0.1", 0))
        # Small, so that answers have to wait for their readers.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self.runtime = Runtime(machine.broker, asyncio.get_running_loop())
        self.runtime.secure(self.contexts)
        self.transports: list[TlsTransport] = []
        make = self.contexts.transports_of("SSL")

        def noted(sock: socket.socket) -> TlsTransport:
            made = make(sock)
            assert isinstance(made, TlsTransport)
            self.transports.append(made)
            return made

        self.runtime.start([Listening(self.sock, "SSL", noted)])

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.sock.getsockname()
        return host, port

    async def connect(self, context: ssl.SSLContext) -> Peer:
        streams = await asyncio.open_connection(
            *self.address, ssl=context, server_hostname="localhost"
        )
        return Peer(*streams)

    async def connect_plainly(self) -> Peer:
        return Peer(*await asyncio.open_connection(*self.address))


def serve(machine: InProcess, story: Callable[[Served], Awaitable[None]]) -> None:
    async def main() -> None:
        served = Served(machine)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await story(served)
        finally:
            await served.runtime.stop()

    asyncio.run(main())


@pytest.fixture
def machine(directory: Path) -> Iterator[InProcess]:
    machine = machine_of(directory)
    yield machine
    machine.check_invariants()


@pytest.fixture
def filled(machine: InProcess) -> InProcess:
    """With 6.4 MB to fetch."""
    client = machine.connect()
    create_topic(client, max_message_bytes="9000000")
    write(client, *("v" * 800_000 for _ in range(8)))
    client.leave()
    return machine


def principals_of(machine: InProcess) -> list[str]:
    """Of connections through TLS."""
    sessions = [each.session for each in machine.broker.peers.by_number.values()]
    return [str(each.principal) for each in sessions if each.listener == "SSL"]


async def quiet(served: Served) -> None:
    """Until nothing is received or sent any more."""
    for _ in range(300):
        await asyncio.sleep(0)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_are_answered_in_both_versions(
    machine: InProcess, authority: Authority, version: ssl.TLSVersion
) -> None:
    context = authority.trusting()
    context.minimum_version = context.maximum_version = version
    client = machine.connect()
    create_topic(client, max_message_bytes="9000000")
    client.leave()

    async def story(served: Served) -> None:
        peer = await served.connect(context)
        peer.send(produce(batch(("k", "v" * 3_000_000))))
        assert await peer.answer()
        peer.send(produce(batch(("k", "small"))))
        assert await peer.answer()
        assert end_offset(machine) == 2
        assert principals_of(machine) == [str(ANONYMOUS)]
        assert peer.tls.version() == version.name.replace("_", ".")
        peer.close()

    serve(machine, story)


def test_many_requests_in_one_record_are_all_answered(
    machine: InProcess, authority: Authority
) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect(authority.trusting())
        peer.send(*[ASK] * 16)
        for _ in range(16):
            assert await peer.answer()
        assert served.transports[0].pending == 0
        peer.close()

    serve(machine, story)


def test_a_large_fetch_brings_the_bytes_of_the_log(filled: InProcess, authority: Authority) -> None:
    log = next(iter(filled.broker.partitions)).log
    content = b"".join(FileSlice(each.file, 0, each.size).read() for each in log.segments)

    async def story(served: Served) -> None:
        peer = await served.connect(authority.trusting())
        peer.send(BIG_FETCH, version=12)
        assert content in await peer.answer()
        peer.close()

    assert len(content) > 6_400_000
    serve(filled, story)


def test_a_reader_that_stops_costs_one_part_of_its_answer(
    filled: InProcess, authority: Authority
) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect(authority.trusting())
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(3):
            peer.send(BIG_FETCH, version=12)
        connections = served.runtime._connections
        while not any(each.writing for each in connections._all.values()):
            await asyncio.sleep(0)
        await quiet(served)
        (connection,) = connections._all.values()
        assert not connection.reading
        assert 0 < connection.transport.held_bytes <= PART_BYTES * 1.01
        assert connections._unsent.total_bytes <= PART_BYTES * 1.01 + (64 << 10)
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        sizes = [len(await peer.answer()) for _ in range(3)]
        assert min(sizes) > 6_400_000
        assert connections._unsent.total_bytes == 0
        peer.close()

    serve(filled, story)


def test_requests_left_inside_a_muted_connection_wait_for_its_time(
    machine: InProcess, authority: Authority
) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect(authority.trusting())
        peer.send(ASK)
        assert await peer.answer()
        (number,) = machine.broker.peers.by_number
        machine.broker.mute(number, machine.clock.monotonic_ms() + 300)
        peer.send(*[ASK] * 16)
        await quiet(served)
        machine.clock.advance(ms=300)
        served.runtime._tick()
        for _ in range(16):
            assert await peer.answer()
        peer.close()

    serve(machine, story)


def test_a_goodbye_ends_the_connection(machine: InProcess, authority: Authority) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect(authority.trusting())
        peer.send(ASK)
        assert await peer.answer()
        # Says close_notify, and leaves when it is answered.
        peer.writer.close()
        await peer.writer.wait_closed()
        while served.runtime.connection_count:
            await asyncio.sleep(0)

    serve(machine, story)


# -- who it is -----------------------------------------------------------------------------------


def test_the_certificate_of_a_client_names_its_principal(
    directory: Path, authority: Authority
) -> None:
    machine = machine_of(directory, ssl_client_auth="required")
    context = authority.trusting(authority.issue("alice"), directory)

    async def story(served: Served) -> None:
        peer = await served.connect(context)
        peer.send(ASK)
        assert await peer.answer()
        assert principals_of(machine) == ["User:CN=alice"]
        peer.close()

    serve(machine, story)


def test_rules_make_a_short_name_of_it(directory: Path, authority: Authority) -> None:
    machine = machine_of(
        directory,
        ssl_client_auth="required",
        ssl_principal_mapping_rules="RULE:^CN=([a-z]+)$/$1/U",
    )
    context = authority.trusting(authority.issue("alice"), directory)
    stranger = authority.trusting(authority.issue("x1"), directory)

    async def story(served: Served) -> None:
        peer = await served.connect(context)
        peer.send(ASK)
        assert await peer.answer()
        assert principals_of(machine) == ["User:ALICE"]
        peer.close()
        other = await served.connect(stranger)
        other.send(ASK)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await other.answer()
        other.close()

    serve(machine, story)


@pytest.mark.parametrize("shown", ["nothing", "a stranger's"])
@pytest.mark.parametrize("auth", ["requested", "required"])
def test_who_shows_no_certificate_is_let_in_only_where_none_is_required(
    directory: Path, authority: Authority, auth: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = machine_of(directory, ssl_client_auth=auth)
    context = authority.trusting()
    if shown != "nothing":
        context.load_cert_chain(Authority("x").issue("mallory").write(directory / "m.pem"))
    is_welcome = auth == "requested" and shown == "nothing"

    async def story(served: Served) -> None:
        refusals = (ssl.SSLError, asyncio.IncompleteReadError, ConnectionError)
        try:
            peer = await served.connect(context)
            peer.send(ASK)
            assert await peer.answer()
        except refusals:
            assert not is_welcome
        else:
            assert is_welcome
            assert principals_of(machine) == [str(ANONYMOUS)]
            peer.close()

    with caplog.at_level(logging.WARNING):
        serve(machine, story)

    assert ("tls handshake failed listener=SSL" in caplog.text) != is_welcome


# -- who does not speak it -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        frame_of(ASK, newest_version(ASK)),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\xff\xff" + b"\0" * 100,
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\xff" * 20_000,
    ],
)
def test_who_speaks_no_tls_is_closed_with_one_line(
    machine: InProcess, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        for _ in range(20):
            peer = await served.connect_plainly()
            peer.writer.write(said)
            with contextlib.suppress(ConnectionError):
                assert len(await peer.reader.read()) < 100
            peer.close()
        assert served.runtime.connection_count == 0
        assert machine.broker.connection_count == 0

    with caplog.at_level(logging.WARNING):
        serve(machine, story)

    lines = [each for each in caplog.records if "tls handshake failed" in each.getMessage()]
    assert len(lines) == 1
    assert machine.broker.counters.logins == {("failed_authentication", "SSL"): 20}


def test_a_handshake_without_end_is_ended(
    machine: InProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections_module, "GREETING_S", 0.01)

    async def story(served: Served) -> None:
        peer = await served.connect_plainly()
        peer.writer.write(b"\x16\x03\x01\x02\x00")
        assert await peer.reader.read() == b""
        assert served.runtime.connection_count == 0
        peer.close()

    with caplog.at_level(logging.WARNING):
        serve(machine, story)

    assert "the handshake took longer than" in caplog.text


def test_a_handshake_takes_a_bounded_number_of_bytes(machine: InProcess) -> None:
    """Records with alerts that are only warnings could go on for ever."""

    async def story(served: Served) -> None:
        peer = await served.connect_plainly()
        record = (
            b"\x16\x03\x01"
            + struct.pack(">H", 1 << 14)
            + b"\x01\xff\xff\xff"
            + bytes((1 << 14) - 4)
        )
        sent = 0
        try:
            while sent < 4 * MAX_GREETING_BYTES:
                peer.writer.write(record)
                await peer.writer.drain()
                sent += len(record)
        except ConnectionError:
            pass
        with contextlib.suppress(ConnectionError):
            await peer.reader.read()
        assert served.runtime.connection_count == 0
        peer.close()

    serve(machine, story)


def test_an_old_version_is_answered_with_an_alert(machine: InProcess) -> None:
    hello = bytes.fromhex("16030100310100002d0302" + "11" * 32 + "000006c013c0140035" + "0100")

    async def story(served: Served) -> None:
        peer = await served.connect_plainly()
        peer.writer.write(hello)
        assert (await peer.reader.read())[:1] == b"\x15"
        peer.close()

    serve(machine, story)


# -- files that change ---------------------------------------------------------------------------


async def shown_by(served: Served, context: ssl.SSLContext) -> bytes:
    peer = await served.connect(context)
    found = peer.tls.getpeercert(binary_form=True)
    assert found is not None
    peer.close()
    return found


def renew(path: Path, issued: Issued) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    path.unlink()
    issued.write(path)
    return issued.certificate.public_bytes(Encoding.DER)


async def reloaded(served: Served) -> None:
    served.runtime.look_at_tls()
    while served.runtime._in_threads:
        await asyncio.wait(served.runtime._in_threads)


def test_a_new_certificate_is_shown_to_new_connections_and_old_ones_live(
    machine: InProcess, directory: Path, authority: Authority
) -> None:
    async def story(served: Served) -> None:
        old = await served.connect(authority.trusting())
        fresh = renew(directory / "broker.pem", authority.issue("broker"))
        await reloaded(served)
        assert await shown_by(served, authority.trusting()) == fresh
        old.send(ASK)
        assert await old.answer()
        old.close()

    serve(machine, story)


@pytest.mark.parametrize("fault", ["broken", "another name", "a host less", "gone"])
def test_what_cannot_be_used_leaves_the_old_one_and_says_so(
    machine: InProcess, directory: Path, authority: Authority, fault: str
) -> None:
    path = directory / "broker.pem"

    async def story(served: Served) -> None:
        before = await shown_by(served, authority.trusting())
        if fault == "broken":
            path.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        elif fault == "gone":
            path.unlink()
        elif fault == "another name":
            renew(path, authority.issue("other"))
        else:
            renew(path, authority.issue("broker", ["127.0.0.1"]))
        await reloaded(served)
        assert await shown_by(served, authority.trusting()) == before
        assert list(served.contexts.complaints())
        # Mended.
        path.unlink(missing_ok=True)
        fresh = authority.issue("broker")
        fresh.write(path)
        await reloaded(served)
        assert await shown_by(served, authority.trusting()) != before
        assert list(served.contexts.complaints()) == []

    serve(machine, story)
