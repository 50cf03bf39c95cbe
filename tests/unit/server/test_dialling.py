"""Connections that a broker opens: a small agent dials, speaks, hears, and is hung up on."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest

from ledgerstone.metadata.delta import Delta
from ledgerstone.server.broker import Broker
from ledgerstone.server.effects import Dial, Effect, Hangup, Send
from ledgerstone.server.results import DialFailed, Dialled, Result
from ledgerstone.server.runtime import Runtime
from tests.kit.in_process import InProcess

TIMEOUT_S = 10
PURPOSE = "greeting"
BIG = bytes(range(256)) * 40_000  # more than a socket takes at once


class Greeter:
    """Dials once, says its greeting, and hangs up when it hears `bye`."""

    next_deadline_ms: int | None = 0

    def __init__(self, port: int, greeting: bytes = b"hello", host: str = "127.0.0.1") -> None:
        self._dial = Dial(2, host, port, PURPOSE)
        self._greeting = greeting
        self.results: list[Result] = []
        self.heard = bytearray()
        self.losses: list[str] = []
        # Where it wants the next bytes.
        self.place: bytearray | None = None

    def tick(self) -> list[Effect]:
        is_due, self.next_deadline_ms = self.next_deadline_ms is not None, None
        return [self._dial] if is_due else []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        assert effect is self._dial
        self.results.append(result)
        return [Send(result.connection, [self._greeting])] if isinstance(result, Dialled) else []

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []

    def received(self, connection: int, data: memoryview) -> list[Effect]:
        if bytes(data) == b"fault":
            raise RuntimeError("a bug")
        self.heard += data
        if self.heard.endswith(b"bye"):
            return [Hangup(connection)]
        return [Send(connection, [b"heard ", bytes(data)])]

    def room(self, connection: int) -> memoryview | None:
        return None if self.place is None else memoryview(self.place)

    def filled(self, connection: int, count: int) -> list[Effect]:
        assert self.place is not None
        data, self.place = self.place[:count], None
        return self.received(connection, memoryview(data))

    def lost(self, connection: int, reason: str) -> list[Effect]:
        self.losses.append(reason)
        return []


class Other:
    """The node that is dialled."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]

    async def accept(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock, _ = await asyncio.get_running_loop().sock_accept(self.listener)
        return await asyncio.open_connection(sock=sock)


def run(broker: Broker, story: Callable[[Runtime], Awaitable[None]]) -> None:
    async def main() -> None:
        runtime = Runtime(broker, asyncio.get_running_loop())
        runtime.start([])
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await story(runtime)
        finally:
            await runtime.stop()
        assert len(runtime._dialling) == 0

    asyncio.run(main())


@pytest.fixture
def broker() -> Broker:
    return InProcess().broker


@pytest.fixture
def other() -> Iterator[Other]:
    other = Other()
    yield other
    other.listener.close()


def test_agent_dials_speaks_hears_and_is_hung_up_on(broker: Broker, other: Other) -> None:
    agent = Greeter(other.port)
    broker.agents.add_dialling(PURPOSE, agent)

    async def story(runtime: Runtime) -> None:
        reader, writer = await other.accept()
        assert await reader.readexactly(5) == b"hello"
        writer.write(b"welcome")
        assert await reader.readexactly(13) == b"heard welcome"
        writer.close()
        while not agent.losses:
            await asyncio.sleep(0)

    run(broker, story)
    assert [type(each) for each in agent.results] == [Dialled]
    assert agent.losses == ["the other side hung up"]


def test_bytes_go_where_the_agent_wants_them(broker: Broker, other: Other) -> None:
    agent = Greeter(other.port)
    agent.place = bytearray(4)
    broker.agents.add_dialling(PURPOSE, agent)

    async def story(runtime: Runtime) -> None:
        reader, writer = await other.accept()
        assert await reader.readexactly(5) == b"hello"
        writer.write(b"welcome")
        # No more than there is room for; the rest comes the usual way.
        assert await reader.readexactly(19) == b"heard welcheard ome"
        writer.close()

    run(broker, story)
    assert bytes(agent.heard) == b"welcome"


def test_agent_that_hangs_up_hears_no_more(broker: Broker, other: Other) -> None:
    agent = Greeter(other.port)
    broker.agents.add_dialling(PURPOSE, agent)

    async def story(runtime: Runtime) -> None:
        reader, writer = await other.accept()
        writer.write(b"bye")
        assert await reader.read() == b"hello"
        assert len(runtime._dialling) == 0
        writer.close()

    run(broker, story)
    assert bytes(agent.heard) == b"bye"
    assert agent.losses == []


def test_bytes_that_the_socket_does_not_take_at_once_arrive_whole(
    broker: Broker, other: Other
) -> None:
    broker.agents.add_dialling(PURPOSE, Greeter(other.port, BIG))

    async def story(runtime: Runtime) -> None:
        reader, writer = await other.accept()
        while not any(line.writing for line in runtime._dialling._lines.values()):
            await asyncio.sleep(0)
        assert await reader.readexactly(len(BIG)) == BIG
        writer.close()

    run(broker, story)


def test_dial_that_is_refused_is_told(broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        agent = Greeter(closed.getsockname()[1])
    broker.agents.add_dialling(PURPOSE, agent)

    async def story(runtime: Runtime) -> None:
        while not agent.results:
            await asyncio.sleep(0)

    run(broker, story)
    (result,) = agent.results
    assert isinstance(result, DialFailed)
    assert "Errno 111" in result.reason


def test_fault_of_an_agent_costs_its_connection_and_nothing_else(
    broker: Broker, other: Other, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Greeter(other.port)
    broker.agents.add_dialling(PURPOSE, agent)

    async def story(runtime: Runtime) -> None:
        reader, writer = await other.accept()
        writer.write(b"fault")
        assert await reader.read() == b"hello"
        writer.close()

    run(broker, story)
    assert agent.losses == ["its bytes could not be taken"]
    assert "dialled connection failed RuntimeError" in caplog.text


def test_stop_ends_dials_and_connections_without_a_word(broker: Broker, other: Other) -> None:
    agent = Greeter(other.port)
    broker.agents.add_dialling(PURPOSE, agent)

    async def story(runtime: Runtime) -> None:
        while not agent.results:
            await asyncio.sleep(0)
        runtime._perform([Dial(3, "127.0.0.1", other.port, PURPOSE)])

    run(broker, story)
    assert len(agent.results) == 1
    assert agent.losses == []


def test_in_process_the_same_story() -> None:
    machine = InProcess()
    machine.listening.add(("127.0.0.1", 9))
    agent, lonely = Greeter(9), Greeter(8)
    machine.broker.agents.add_dialling(PURPOSE, agent)
    machine.tick()
    (line,) = machine.dialled.values()
    line.say(b"welcome")
    line.hang_up()
    machine.broker.agents.dialling[PURPOSE] = lonely
    machine.perform(lonely.tick())

    assert bytes(line.received) == b"helloheard welcome"
    assert agent.losses == ["the other side hung up"]
    assert lonely.results == [DialFailed("127.0.0.1:8 does not listen")]


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", "\0"])
def test_what_is_no_name_of_a_host_is_a_dial_that_failed(broker: Broker, host: str) -> None:
    """A node says what it is called. Whoever dials it must not wait for ever."""
    agent = Greeter(9, host=host)
    broker.agents.add_dialling(PURPOSE, agent)

    async def story(runtime: Runtime) -> None:
        while not agent.results:
            await asyncio.sleep(0)

    run(broker, story)

    assert isinstance(agent.results[0], DialFailed)
