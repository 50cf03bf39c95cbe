"""The adapter to sockets: borders, closing, and bytes that leave bit by bit. Loopback only."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

import pytest

from ledgerstone.fs import Filesystem
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.server.accepting import Listening
from ledgerstone.server.broker import Broker
from ledgerstone.server.effects import Close, FollowUp, Unlink
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.runtime import Runtime
from ledgerstone.server.transactions.settling import Settling
from ledgerstone.server.unsent import Unsent
from ledgerstone.storage.deleted_files import UnlinkPlan
from tests.kit.in_process import InProcess, frame_of, newest_version
from tests.unit.server.asks import create_topic, fetch, write

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
TIMEOUT_S = 10


class Served:
    """A runtime on a port of its own."""

    def __init__(self, broker: Broker) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.runtime = Runtime(broker, asyncio.get_running_loop())
        self.runtime.start([Listening(self.listener)])

    async def connect(self) -> "Peer":
        address = self.listener.getsockname()
        return Peer(*await asyncio.open_connection(*address))


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, message: ApiMessage, version: int | None = None) -> None:
        number = newest_version(message) if version is None else version
        self.writer.write(frame_of(message, number))

    async def answer(self) -> bytes:
        """One frame; empty at the end of the stream."""
        head = await self.reader.read(4)
        if not head:
            return b""
        return await self.reader.readexactly(int.from_bytes(head, "big"))

    def close(self) -> None:
        self.writer.close()


def serve(machine: InProcess, story: Callable[[Served], Awaitable[None]]) -> None:
    async def main() -> None:
        served = Served(machine.broker)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await story(served)
        finally:
            await served.runtime.stop()

    asyncio.run(main())


def test_fault_of_ours_costs_the_connection_that_met_it_and_nobody_else() -> None:
    machine = InProcess()
    honest = machine.broker.dispatch

    def dispatch(broker: Broker, request: Request, message: ApiMessage) -> Answer:
        if isinstance(message, MetadataRequest):
            raise RuntimeError("a bug")
        return honest(broker, request, message)

    machine.broker.dispatch = dispatch

    async def story(served: Served) -> None:
        unlucky, other = await served.connect(), await served.connect()
        unlucky.send(MetadataRequest(topics=[]))
        assert await unlucky.answer() == b""
        other.send(HELLO)
        assert await other.answer() != b""
        assert machine.broker.connection_count == 1
        unlucky.close()
        other.close()

    serve(machine, story)


def test_bad_connections_write_a_line_a_minute_with_the_address_of_the_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Each of them once wrote a line: 61 MB in five minutes, and none said whose it was.
    machine = InProcess()

    async def story(served: Served) -> None:
        for _ in range(40):
            peer = await served.connect()
            port = peer.writer.get_extra_info("sockname")[1]
            ports.append(port)
            peer.writer.write(b"\x00\x00\x00\x10GET / HTTP/1.1" + b"x" * 100)
            assert await peer.answer() == b""
            peer.close()
        closed = [each for each in caplog.messages if each.startswith("connection closed")]
        assert len(closed) == 1
        assert f"peer=127.0.0.1:{ports[0]} " in closed[0]
        assert "suppressed=0" in closed[0]
        machine.clock.advance(ms=60_000)
        served.runtime._tick()
        assert "suppressed=39" in caplog.messages[-1]

    ports: list[int] = []
    with caplog.at_level("INFO", logger="ledgerstone.server.reporting"):
        serve(machine, story)


def test_a_fault_that_is_met_again_and_again_is_told_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = InProcess()

    def dispatch(broker: Broker, request: Request, message: ApiMessage) -> Answer:
        raise RuntimeError("a bug")

    machine.broker.dispatch = dispatch

    async def story(served: Served) -> None:
        for _ in range(10):
            peer = await served.connect()
            peer.send(MetadataRequest(topics=[]))
            assert await peer.answer() == b""
            peer.close()

    serve(machine, story)
    assert len([each for each in caplog.messages if each.startswith("request failed")]) == 1


def test_a_fault_in_what_follows_a_request_costs_its_connection_and_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = InProcess()
    answered = machine.broker.dispatch

    def dispatch(broker: Broker, request: Request, message: ApiMessage) -> Answer:
        broker.act([FollowUp()])
        return answered(broker, request, message)

    async def story(served: Served) -> None:
        other = await served.connect()
        machine.broker.dispatch = dispatch
        peer = await served.connect()
        peer.send(MetadataRequest(topics=[]))
        assert await peer.answer() == b""
        machine.broker.dispatch = answered
        other.send(MetadataRequest(topics=[]))
        assert await other.answer() != b""
        peer.close()
        other.close()

    with mock.patch.object(Settling, "follow_up", side_effect=RuntimeError("a bug")):
        serve(machine, story)
    assert len([each for each in caplog.messages if each.startswith("request failed")]) == 1


def test_tick_that_fails_is_followed_by_another() -> None:
    machine = InProcess()
    runs: list[int] = []

    def fail() -> None:
        runs.append(len(runs))
        raise RuntimeError("a bug")

    job = machine.broker.housekeeping.jobs[0]
    job.run, job.due_ms, job.period_ms = fail, 0, 0

    async def story(served: Served) -> None:
        while len(runs) < 3:
            await asyncio.sleep(0)

    serve(machine, story)

    assert len(runs) >= 3


def test_answer_larger_than_the_socket_takes_arrives_whole_and_then_the_next() -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client, max_message_bytes="9000000")
    write(client, *("v" * 800_000 for _ in range(8)))

    async def story(served: Served) -> None:
        peer = await served.connect()
        request = fetch(partition_max_bytes=1 << 24, max_bytes=1 << 24)
        peer.send(request, 12)
        peer.send(HELLO)
        big, small = await peer.answer(), await peer.answer()
        assert len(big) > 6_400_000
        assert 0 < len(small) < 10_000
        peer.close()

    serve(machine, story)


def test_answers_that_nobody_takes_have_a_limit_and_the_largest_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = InProcess()
    honest = machine.broker.dispatch
    size = 24 << 20

    def dispatch(broker: Broker, request: Request, message: ApiMessage) -> Answer:
        if isinstance(message, MetadataRequest):
            return bytes(size + request.connection)
        return honest(broker, request, message)

    machine.broker.dispatch = dispatch

    async def story(served: Served) -> None:
        runtime = served.runtime
        runtime._connections._unsent = Unsent(3 * size)
        peers = [await served.connect() for _ in range(6)]
        for peer in peers:
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            peer.send(MetadataRequest(topics=[]))
        while runtime.connection_count > 2:
            await asyncio.sleep(0)
        assert 0 < runtime._connections._unsent.total_bytes <= 3 * size
        for peer in peers:
            peer.close()
        while runtime.connection_count:
            await asyncio.sleep(0)
        assert runtime._connections._unsent.total_bytes == 0

    with caplog.at_level("INFO", logger="ledgerstone.server.reporting"):
        serve(machine, story)
    assert len([each for each in caplog.messages if "kind=unsent connection" in each]) == 1


def test_closing_at_once_does_not_wait_for_a_peer_that_never_reads() -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client, max_message_bytes="9000000")
    write(client, *("v" * 800_000 for _ in range(12)))

    async def story(served: Served) -> None:
        peer = await served.connect()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(4):
            peer.send(fetch(partition_max_bytes=1 << 24, max_bytes=1 << 24), 12)
        runtime = served.runtime
        while not any(each.unsent for each in runtime._connections._all.values()):
            await asyncio.sleep(0)
        (number,) = runtime._connections._all
        runtime._perform([Close(number, "politely")])
        polite = runtime.connection_count
        runtime._perform([Close(number, "at once", at_once=True)])
        assert (polite, runtime.connection_count) == (1, 0)
        peer.close()

    serve(machine, story)


class SlowDisk:
    """Unlinks nothing before it is told to."""

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self.began = threading.Event()
        self.may_go_on = threading.Event()

    def unlink(self, path: str) -> None:
        self.began.set()
        assert self.may_go_on.wait(TIMEOUT_S)
        self._fs.unlink(path)


def test_unlinking_holds_up_no_request_and_a_stop_waits_for_it() -> None:
    machine = InProcess()
    machine.fs.open("/data/old.deleted", create=True).close()
    disk: Any = SlowDisk(machine.fs)
    plan = UnlinkPlan(files=("/data/old.deleted",))
    answers: list[bytes] = []

    async def story(served: Served) -> None:
        served.runtime.fs = disk
        served.runtime._perform([Unlink(plan)])
        assert await asyncio.to_thread(disk.began.wait, TIMEOUT_S)
        peer = await served.connect()
        peer.send(HELLO)
        answers.append(await peer.answer())
        answers.append(b"still there" if machine.fs.exists("/data/old.deleted") else b"")
        peer.close()
        disk.may_go_on.set()

    serve(machine, story)

    assert answers[0] != b""
    assert answers[1] == b"still there"
    assert not machine.fs.exists("/data/old.deleted")
