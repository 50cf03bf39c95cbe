"""Muted connections: answered first, then neither read nor served until their time has come."""

import asyncio
from typing import Any

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.framing import frame_prefix
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.runtime import Runtime
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import create_topic, fetch
from tests.unit.server.test_runtime import Served, serve

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
IDLE_MS = 600_000


@pytest.fixture
def machine() -> InProcess:
    """With nothing due at once."""
    started = InProcess()
    started.advance(1)
    return started


def now_ms(machine: InProcess) -> int:
    return machine.clock.monotonic_ms()


def mute(client: Client, ms: int) -> int:
    until_ms = now_ms(client.machine) + ms
    client.machine.broker.mute(client.number, until_ms)
    return until_ms


def resumed(machine: InProcess) -> list[str]:
    return [line for line in machine.trace if line.startswith("resume")]


def mute_after(machine: InProcess, ms: int) -> None:
    """Every request is answered and then mutes its connection, as a quota will."""
    honest = machine.broker.dispatch

    def dispatch(broker: Any, request: Request, message: Any) -> Answer:
        broker.mute(request.connection, broker.clock.monotonic_ms() + ms)
        return honest(broker, request, message)

    machine.broker.dispatch = dispatch


def test_request_that_mutes_is_answered_at_once_and_the_next_one_when_the_time_is_over(
    machine: InProcess,
) -> None:
    mute_after(machine, 500)
    client = machine.connect()
    frames = [client.frame(HELLO)[1] for _ in range(3)]

    client.feed(b"".join(frames))
    counts = [len(client.answers)]
    for ms in (499, 1, 500):
        machine.advance(ms)
        counts.append(len(client.answers))

    assert counts == [1, 1, 2, 3]
    machine.check_invariants()


def test_muted_connection_wants_no_bytes_and_has_no_backlog(machine: InProcess) -> None:
    mute_after(machine, 500)
    client, broker = machine.connect(), machine.broker
    client.feed(client.frame(HELLO)[1] + client.frame(HELLO)[1])

    muted = broker.wants_read(client.number), broker.has_backlog(client.number)
    room = broker.room_for(client.number)
    machine.advance(500)
    mute(client, 0)
    machine.advance(0)

    assert muted == (False, False)
    assert room is None
    assert len(client.answers) == 2


def test_end_of_a_mute_is_the_next_deadline_and_brings_a_resume(machine: InProcess) -> None:
    client = machine.connect()

    until_ms = mute(client, 3)
    due_ms = machine.broker.next_deadline_ms
    machine.advance(3)

    assert due_ms == until_ms
    assert resumed(machine) == [f"resume {client.number}"]
    assert machine.broker.next_deadline_ms > until_ms
    assert machine.broker.wants_read(client.number)


@pytest.mark.parametrize(("first", "second"), [(300, 100), (100, 300)])
def test_of_two_mutes_the_longer_one_counts(machine: InProcess, first: int, second: int) -> None:
    client = machine.connect()
    mute(client, first)
    mute(client, second)

    machine.advance(299)
    before = resumed(machine)
    machine.advance(1)

    assert before == []
    assert resumed(machine) == [f"resume {client.number}"]


def test_muted_connection_that_left_leaves_no_deadline_behind(machine: InProcess) -> None:
    client, other = machine.connect(), machine.connect()
    until_ms = mute(client, 7)
    mute(other, 9)

    client.leave()

    assert machine.broker.next_deadline_ms == until_ms + 2
    other.leave()
    assert machine.broker.next_deadline_ms > until_ms + 2
    machine.check_invariants()


def test_parked_request_of_a_muted_connection_is_answered_in_its_own_time(
    machine: InProcess,
) -> None:
    client = machine.connect()
    create_topic(client)
    client.send(fetch(max_wait_ms=100, min_bytes=1), 12)
    behind = client.frame(HELLO)[1]
    client.feed(behind)
    mute(client, 400)

    machine.advance(100)
    fetched = len(client.answers)
    machine.advance(300)

    assert fetched == 1
    assert len(client.answers) == 2


def test_mute_longer_than_the_idle_limit_costs_no_connection(machine: InProcess) -> None:
    muted, idle = machine.connect(), machine.connect()
    mute(muted, 2 * IDLE_MS)

    machine.clock.advance(ms=2 * IDLE_MS - 1)
    machine.tick()
    still = muted.closed
    machine.advance(IDLE_MS - 2000)

    assert idle.closed is not None
    assert still is None
    # Its silence is counted from the end of the mute on.
    assert muted.closed is None
    machine.advance(4000)
    assert muted.closed is not None


def test_muted_connection_in_the_middle_of_a_request_keeps_what_it_has_sent() -> None:
    machine = InProcess(settings={"queued.max.request.bytes": "4096"})
    holder, starving = machine.connect(), machine.connect()
    begun = frame_prefix(1 << 20) + bytes(100_000)
    holder.feed(begun)
    starving.feed(begun)
    mute(holder, 60_000)

    machine.advance(30_000)

    assert holder.closed is None
    assert machine.broker.peers.starved


def test_muted_connection_is_not_read_from_its_socket_and_the_loop_does_not_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = InProcess()
    asked: list[int] = []
    room_for = type(machine.broker).room_for

    def counted(broker: Any, number: int) -> memoryview | None:
        asked.append(number)
        return room_for(broker, number)

    monkeypatch.setattr(type(machine.broker), "room_for", counted)
    honest = machine.broker.dispatch
    mute_after(machine, 500)

    async def story(served: Served) -> None:
        peer = await served.connect()
        peer.send(HELLO)
        assert await peer.answer()
        peer.send(HELLO)
        machine.broker.dispatch = honest
        # Another connection's request and answer pass through the same loop meanwhile.
        other = await served.connect()
        other.send(HELLO)
        assert await other.answer()
        before = len(asked)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(asked) == before == 2
        assert peer.reader._buffer == bytearray()  # type: ignore[attr-defined]
        machine.clock.advance(ms=500)
        served.runtime._tick()
        assert await peer.answer()
        peer.close()
        other.close()

    serve(machine, story)


def test_who_left_while_muted_does_not_keep_the_place_until_the_mute_ends() -> None:
    machine = InProcess(settings={"connections.max.idle.ms": "5000"})

    async def story(served: Served) -> None:
        leaves, stays = await served.connect(), await served.connect()
        for each in (leaves, stays):
            each.send(HELLO)
            assert await each.answer()
        for number in machine.broker.peers.by_number:
            machine.broker.mute(number, now_ms(machine) + 3_600_000)
        # What it sent ahead is not read either.
        leaves.send(HELLO)
        await asyncio.sleep(0)
        leaves.close()
        await leaves.writer.wait_closed()
        machine.clock.advance(ms=4_000)
        served.runtime._tick()
        assert machine.broker.connection_count == 2
        while machine.broker.connection_count > 1:
            machine.clock.advance(ms=2_000)
            served.runtime._tick()
            await asyncio.sleep(0)
        machine.clock.advance(ms=3_600_000)
        served.runtime._tick()
        stays.send(HELLO)
        assert await stays.answer()
        stays.close()

    serve(machine, story)


def test_connection_that_is_muted_while_it_is_read_is_not_read_on(machine: InProcess) -> None:
    asked: list[memoryview | None] = []
    room_for = machine.broker.peers.room_for

    def noted(number: int) -> memoryview | None:
        asked.append(room_for(number))
        return asked[-1]

    machine.broker.peers.room_for = noted  # type: ignore[method-assign]

    async def story(served: Served) -> None:
        peer = await served.connect()
        peer.send(HELLO)
        assert await peer.answer()
        (number,) = machine.broker.peers.by_number
        machine.broker.mute(number, now_ms(machine) + 500)
        peer.send(HELLO)
        while len(asked) < 2:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert asked[1:] == [None]
        machine.clock.advance(ms=500)
        served.runtime._tick()
        assert await peer.answer()
        peer.close()

    serve(machine, story)


def test_runtime_sets_its_timer_for_the_end_of_a_mute(machine: InProcess) -> None:
    mute_after(machine, 250)
    delays: list[float] = []

    async def story(served: Served) -> None:
        runtime: Runtime = served.runtime
        peer = await served.connect()
        peer.send(HELLO)
        assert await peer.answer()
        while machine.broker.may_be_due_sooner:
            await asyncio.sleep(0)
        assert runtime._timer is not None
        delays.append(runtime._timer.when() - asyncio.get_running_loop().time())
        peer.close()

    serve(machine, story)

    assert delays[0] <= 0.25


def test_answer_of_a_muted_connection_is_whole(machine: InProcess) -> None:
    mute_after(machine, 10)
    client = machine.connect()

    answer = client.ask(HELLO, ApiVersionsResponse)

    assert answer.error_code == ErrorCode.NONE
    assert answer.api_keys
