"""The seam for TLS: a record layer of our own between real sockets and the real runtime."""

import asyncio
import select
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from ledgerstone.fs import File, FileSlice
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server.accepting import Listening
from ledgerstone.server.broker import Broker
from ledgerstone.server.effects import Close, Dial
from ledgerstone.server.results import DialFailed, Dialled
from ledgerstone.server.runtime import Runtime
from ledgerstone.server.sending import send_unsent
from ledgerstone.system import OsFilesystem
from tests.kit.in_process import InProcess, frame_of, newest_version
from tests.kit.logs import batch
from tests.kit.record_transport import (
    HELLO,
    MAX_HELD_BYTES,
    REFUSED,
    WELCOME,
    Made,
    RecordTransport,
    opened,
    sealed,
)
from tests.unit.server.asks import create_topic, end_offset, fetch, produce, write
from tests.unit.server.test_dialling import PURPOSE, Greeter, Other
from tests.unit.server.test_runtime import HELLO as ASK
from tests.unit.server.test_runtime import Peer

TIMEOUT_S = 20
CONTENT = bytes(range(251)) * 12_000


class SealedPeer:
    """A client of the record layer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._sealed = bytearray()
        self._plain = bytearray()

    async def greet(self) -> None:
        self.writer.write(HELLO)
        assert await self.reader.readexactly(len(WELCOME)) == WELCOME

    def send(self, *messages: ApiMessage, version: int | None = None) -> None:
        """All of them in one record, if they fit."""
        numbers = [newest_version(each) if version is None else version for each in messages]
        self.writer.write(sealed(b"".join(map(frame_of, messages, numbers))))

    async def answer(self) -> bytes:
        """One frame; empty at the end of the stream."""
        head = await self._exactly(4)
        return await self._exactly(int.from_bytes(head, "big")) if head else b""

    async def _exactly(self, size: int) -> bytes:
        while len(self._plain) < size:
            data = await self.reader.read(1 << 16)
            if not data:
                return b""
            self._sealed += data
            self._plain += opened(self._sealed)
        taken = bytes(self._plain[:size])
        del self._plain[:size]
        return taken

    def close(self) -> None:
        self.writer.close()


class Served:
    """A runtime with two listeners: in the clear, and with records."""

    def __init__(self, broker: Broker, made: Made) -> None:
        self.plain = socket.create_server(("127.0.0.1", 0))
        self.records = socket.create_server(("127.0.0.1", 0))
        # Small, so that answers have to wait for their readers.
        self.records.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self.made = made
        self.runtime = Runtime(broker, asyncio.get_running_loop())
        self.runtime.start([Listening(self.plain), Listening(self.records, "RECORDS", made)])

    async def connect(self) -> SealedPeer:
        peer = await self.connect_silently()
        await peer.greet()
        return peer

    async def connect_silently(self) -> SealedPeer:
        return SealedPeer(*await asyncio.open_connection(*self.records.getsockname()))

    async def connect_plain(self) -> Peer:
        return Peer(*await asyncio.open_connection(*self.plain.getsockname()))


def serve(
    broker: Broker, story: Callable[[Served], Awaitable[None]], hands_out: int = 1 << 20
) -> None:
    async def main() -> None:
        served = Served(broker, Made(hands_out=hands_out))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await story(served)
        finally:
            await served.runtime.stop()

    asyncio.run(main())


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def quiet(transport: RecordTransport) -> None:
    """Until nothing calls it any more; never, if the loop spins."""
    calls = -1
    while calls != transport.calls:
        calls = transport.calls
        await turns(200)


@pytest.fixture
def machine() -> InProcess:
    return InProcess()


@pytest.fixture
def filled(machine: InProcess) -> InProcess:
    """With 6.4 MB to fetch."""
    client = machine.connect()
    create_topic(client, max_message_bytes="9000000")
    write(client, *("v" * 800_000 for _ in range(8)))
    client.leave()
    return machine


BIG_FETCH = fetch(partition_max_bytes=1 << 24, max_bytes=1 << 24)


def test_what_is_produced_through_records_is_in_the_log(machine: InProcess) -> None:
    create_topic(machine.connect(), max_message_bytes="9000000")

    async def story(served: Served) -> None:
        peer = await served.connect()
        peer.send(produce(batch(("k", "v" * 3_000_000))))
        assert await peer.answer()
        peer.send(produce(batch(("k", "small"))))
        assert await peer.answer()
        assert end_offset(machine) == 2
        peer.close()

    serve(machine.broker, story)


def test_large_fetch_brings_the_same_bytes_through_both_listeners(filled: InProcess) -> None:
    async def story(served: Served) -> None:
        plain, peer = await served.connect_plain(), await served.connect()
        plain.send(BIG_FETCH, 12)
        peer.send(BIG_FETCH, version=12)
        expected = await plain.answer()
        assert len(expected) > 6_400_000
        assert await peer.answer() == expected
        plain.close()
        peer.close()

    serve(filled.broker, story)


def test_sessions_know_the_listener_they_came_through(machine: InProcess) -> None:
    async def story(served: Served) -> None:
        plain, peer = await served.connect_plain(), await served.connect()
        plain.send(ASK)
        assert await plain.answer()
        peers = machine.broker.peers.by_number.values()
        assert sorted(each.session.listener for each in peers) == ["PLAINTEXT", "RECORDS"]
        plain.close()
        peer.close()

    serve(machine.broker, story)


def test_reader_that_stops_costs_bounded_memory_and_gets_all_of_it_later(
    filled: InProcess,
) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(3):
            peer.send(BIG_FETCH, version=12)
        connections, (transport,) = served.runtime._connections, served.made.all
        while not any(each.writing for each in connections._all.values()):
            await asyncio.sleep(0)
        # The socket is full: nothing is tried, and nothing is read.
        await quiet(transport)
        (connection,) = connections._all.values()
        assert not connection.reading
        assert 0 < connections._unsent.total_bytes <= MAX_HELD_BYTES + (64 << 10)
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        sizes = [len(await peer.answer()) for _ in range(3)]
        assert min(sizes) > 6_400_000
        assert transport.most_held_bytes <= MAX_HELD_BYTES + 64
        peer.send(ASK)
        assert await peer.answer()
        assert connections._unsent.total_bytes == 0
        peer.close()

    serve(filled.broker, story)


def test_requests_left_inside_are_served_while_the_socket_is_silent(machine: InProcess) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect()
        peer.send(*[ASK] * 16)
        for _ in range(16):
            assert await peer.answer()
        (transport,) = served.made.all
        assert transport.pending == 0
        await quiet(transport)
        peer.close()

    # A few bytes at a time, so that most of the record is left inside after every turn.
    serve(machine.broker, story, hands_out=7)


def test_requests_left_inside_a_muted_connection_are_served_when_its_time_has_come(
    machine: InProcess,
) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect()
        (number,) = machine.broker.peers.by_number
        peer.send(*[ASK] * 16)
        assert await peer.answer()
        machine.broker.mute(number, machine.clock.monotonic_ms() + 300)
        (transport,) = served.made.all
        await quiet(transport)
        assert transport.pending > 0
        machine.clock.advance(ms=300)
        served.runtime._tick()
        for _ in range(15):
            assert await peer.answer()
        peer.close()

    serve(machine.broker, story, hands_out=7)


def test_handshake_that_comes_byte_by_byte_is_waited_for_without_spinning(
    machine: InProcess,
) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect_silently()
        for byte in HELLO[:-1]:
            peer.writer.write(bytes([byte]))
            await turns(5)
        while not served.made.all or bytes(served.made.all[0]._received) != HELLO[:-1]:
            await asyncio.sleep(0)
        (transport,) = served.made.all
        await quiet(transport)
        assert transport.calls <= len(HELLO)
        # The last byte of the hello and the first request come together.
        peer.writer.write(HELLO[-1:] + sealed(frame_of(ASK, newest_version(ASK))))
        assert await peer.reader.readexactly(len(WELCOME)) == WELCOME
        assert await peer.answer()
        peer.close()

    serve(machine.broker, story)


def test_muted_connection_still_shakes_hands_and_its_first_request_waits(
    machine: InProcess,
) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect_silently()
        while not (numbers := list(machine.broker.peers.by_number)):
            await asyncio.sleep(0)
        machine.broker.mute(numbers[0], machine.clock.monotonic_ms() + 300)
        served.runtime._connections._watch(served.runtime._connections._all[numbers[0]])
        peer.writer.write(HELLO + sealed(frame_of(ASK, newest_version(ASK))))
        assert await peer.reader.readexactly(len(WELCOME)) == WELCOME
        await turns(50)
        assert served.made.all[0].pending > 0
        machine.clock.advance(ms=300)
        served.runtime._tick()
        assert await peer.answer()
        peer.close()

    serve(machine.broker, story)


@pytest.mark.parametrize("says", [b"GET / HTTP/1.1\r\n", b""])
def test_handshake_that_fails_costs_the_connection(machine: InProcess, says: bytes) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect_silently()
        peer.writer.write(says)
        if not says:
            peer.writer.write_eof()
        assert await peer.reader.read() == (REFUSED if says else b"")
        assert served.runtime.connection_count == 0
        assert machine.broker.connection_count == 0
        peer.close()

    serve(machine.broker, story)


def test_close_waits_for_sealed_bytes_that_the_socket_has_not_taken(filled: InProcess) -> None:
    async def story(served: Served) -> None:
        peer = await served.connect()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.send(BIG_FETCH, version=12)
        connections = served.runtime._connections
        while not any(each.writing for each in connections._all.values()):
            await asyncio.sleep(0)
        (number,) = connections._all
        served.runtime._perform([Close(number, "politely")])
        assert served.runtime.connection_count == 1
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await peer.answer()) > 6_400_000
        assert await peer.answer() == b""
        peer.close()

    serve(filled.broker, story)


@pytest.fixture
def file(tmp_path: Path) -> File:
    opened_file = OsFilesystem().open(str(tmp_path / "log"), create=True)
    opened_file.pwrite(CONTENT, 0)
    return opened_file


def test_slice_of_a_real_file_is_sealed_and_not_sent_by_the_kernel(file: File) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(HELLO)
        transport = RecordTransport(ours)
        while not transport.is_established:
            transport.advance()
        unsent: deque[Piece] = deque([b"head", FileSlice(file, 3, len(CONTENT) - 3), b"tail"])
        expected = b"head" + CONTENT[3:] + b"tail"
        received, plain = bytearray(), bytearray()
        while len(plain) < len(expected):
            waits = bool(unsent) or transport.wants_write
            readable, writable, _ = select.select([theirs], [ours] if waits else [], [])
            if writable:
                transport.advance()
                send_unsent(transport, unsent)
            if readable:
                received += theirs.recv(1 << 16)
                if received[: len(WELCOME)] == WELCOME:
                    del received[: len(WELCOME)]
                plain += opened(received)

    assert plain == expected


class SealedOther(Other):
    """The node that is dialled; speaks records."""

    async def welcome(self) -> SealedPeer:
        peer = SealedPeer(*await self.accept())
        assert await peer.reader.readexactly(len(HELLO)) == HELLO
        peer.writer.write(WELCOME)
        return peer


@pytest.fixture
def other() -> Iterator[SealedOther]:
    other = SealedOther()
    yield other
    other.listener.close()


def dial(
    broker: Broker, story: Callable[[Runtime], Awaitable[None]], hands_out: int = 1 << 20
) -> None:
    async def main() -> None:
        made = Made(is_client=True, hands_out=hands_out)
        runtime = Runtime(broker, asyncio.get_running_loop(), made)
        runtime.start([])
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await story(runtime)
        finally:
            await runtime.stop()
        assert len(runtime._dialling) == 0

    asyncio.run(main())


@pytest.mark.parametrize("hands_out", [3, 1 << 20])
def test_agent_dials_and_talks_through_records(
    machine: InProcess, other: SealedOther, hands_out: int
) -> None:
    big = bytes(range(256)) * 8_000
    agent = Greeter(other.port, big)
    machine.broker.agents.add_dialling(PURPOSE, agent)

    async def story(runtime: Runtime) -> None:
        peer = await other.welcome()
        assert await peer._exactly(len(big)) == big
        # In one record: the socket is silent about what is left of it inside.
        peer.writer.write(sealed(b"one, two, bye"))
        while len(agent.heard) < 13:
            await asyncio.sleep(0)
        peer.close()

    dial(machine.broker, story, hands_out)

    assert isinstance(agent.results[0], Dialled)
    assert bytes(agent.heard) == b"one, two, bye"
    assert agent.losses == []


def test_dial_ends_in_failure_when_the_other_side_refuses_the_handshake(
    machine: InProcess, other: SealedOther
) -> None:
    agent = Greeter(other.port)
    machine.broker.agents.add_dialling(PURPOSE, agent)

    async def story(runtime: Runtime) -> None:
        reader, writer = await other.accept()
        await reader.readexactly(len(HELLO))
        writer.write(b"what?")
        while not agent.results:
            await asyncio.sleep(0)
        writer.close()

    dial(machine.broker, story)

    assert agent.results == [DialFailed("no handshake")]


def test_dial_ends_when_nothing_comes_of_the_handshake_for_too_long(
    machine: InProcess, other: SealedOther
) -> None:
    agent = Greeter(other.port)
    agent._dial = Dial(2, "127.0.0.1", other.port, PURPOSE, timeout_ms=30)
    machine.broker.agents.add_dialling(PURPOSE, agent)

    async def story(runtime: Runtime) -> None:
        while not agent.results:
            await asyncio.sleep(0)

    dial(machine.broker, story)

    (failure,) = agent.results
    assert isinstance(failure, DialFailed)
    assert "did not answer for 30 ms" in failure.reason
