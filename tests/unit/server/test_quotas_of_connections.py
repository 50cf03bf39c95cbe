"""How many connections may come, and how fast: waits, refusals, room for brokers."""

import asyncio
import socket

import pytest

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import ConfigError
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from ledgerstone.quotas.counters import MOST_COUNTERS
from ledgerstone.server.quotas.connection_quotas import ConnectionQuotas, EntryVerdict
from tests.kit.in_process import InProcess
from tests.unit.server.quota_kit import set_quota
from tests.unit.server.test_runtime import Served, serve

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
BROKER = 4
LISTENER = "PLAINTEXT"


def admissions(machine: InProcess, count: int, host: str = "10.1.1.1") -> list[EntryVerdict]:
    return [machine.broker.admission(LISTENER, host) for _ in range(count)]


def test_address_above_its_rate_is_held_then_refused_and_others_are_free() -> None:
    machine = InProcess()
    set_quota(machine, {"ip": "10.1.1.1"}, connection_creation_rate=5)

    admitted = admissions(machine, 51)

    assert admitted[:50] == [EntryVerdict()] * 50
    assert admitted[50] == EntryVerdict(200, is_refused=True)
    assert admissions(machine, 60, "10.1.1.2") == [EntryVerdict()] * 60


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
def test_rate_of_zero_lets_connections_in_one_after_the_other(prefix: str) -> None:
    machine = InProcess(settings={f"{prefix}max.connection.creation.rate": "0"})

    admitted = admissions(machine, 3)

    assert admitted == [EntryVerdict(1000)] * 3


def test_refused_connection_counts_for_nothing() -> None:
    machine = InProcess(settings={"max.connection.creation.rate": "10"})
    set_quota(machine, {"ip": None}, connection_creation_rate=5)

    admissions(machine, 500)

    connections = machine.broker.quota_agent.connections
    assert connections.broker is not None
    assert connections.broker.windows.total(machine.clock.monotonic_ms()) == 50
    assert connections.addresses["10.1.1.1"].windows.total(machine.clock.monotonic_ms()) == 50


def test_address_is_the_same_however_it_is_written() -> None:
    machine = InProcess()
    set_quota(machine, {"ip": "::ffff:10.1.1.1"}, connection_creation_rate=1)

    admissions(machine, 10, "10.1.1.1")

    assert admissions(machine, 1, "::ffff:10.1.1.1")[0].is_refused


def test_rate_of_the_whole_broker_makes_listeners_wait_and_refuses_nobody() -> None:
    machine = InProcess(settings={"max.connection.creation.rate": "20"})

    admitted = admissions(machine, 201)

    assert admitted == [EntryVerdict()] * 200 + [EntryVerdict(50)]


def test_addresses_without_end_take_no_memory_without_end() -> None:
    quotas = ConnectionQuotas(BrokerConfig.from_raw({}))
    machine = InProcess()
    set_quota(machine, {"ip": None}, connection_creation_rate=1000)
    quotas.follow(machine.broker.image)

    for number in range(MOST_COUNTERS + 100):
        quotas.admit(LISTENER, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0)

    assert len(quotas.addresses) == MOST_COUNTERS
    quotas.forget_idle(3_600_000)
    assert not quotas.addresses


# -- how many --------------------------------------------------------------------------------------


def test_address_may_have_a_limit_of_its_own() -> None:
    machine = InProcess(
        settings={
            "max.connections.per.ip": "1",
            "max.connections.per.ip.overrides": "10.1.1.1:2,[::1]:0",
        }
    )
    closed = {}

    for host, count in (("10.1.1.1", 3), ("10.1.1.2", 2), ("::1", 1)):
        closed[host] = [machine.connect(host=host).closed is not None for _ in range(count)]

    assert closed == {
        "10.1.1.1": [False, False, True],
        "10.1.1.2": [False, True],
        "::1": [True],
    }


@pytest.mark.parametrize(
    "text", ["localhost:5", "10.0.0.1", "10.0.0.1:x", "10.0.0.1:-1", f"10.0.0.1:{'9' * 5000}"]
)
def test_bad_overrides_are_refused_at_the_start(text: str) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig.from_raw({"max.connections.per.ip.overrides": text})


def alter(machine: InProcess, **settings: str) -> int:
    changes = [
        IncrementalAlterConfigsConfig(key.replace("_", "."), 0, value)
        for key, value in settings.items()
    ]
    resource = IncrementalAlterConfigsResource(BROKER, "", changes)
    client = machine.connect(host="10.9.9.9")
    answer = client.ask(
        IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
    )
    client.leave()
    return answer.responses[0].error_code


def test_limits_follow_settings_that_are_changed_while_the_broker_runs() -> None:
    machine = InProcess()

    code = alter(
        machine,
        max_connections_per_ip="1",
        max_connections="3",
        max_connection_creation_rate="1",
    )
    bad = alter(machine, max_connections_per_ip_overrides="nobody:1")
    first, second = machine.connect(), machine.connect()

    assert (code, bad != 0) == (0, True)
    assert first.closed is None
    assert second.closed is not None
    assert admissions(machine, 11)[10].wait_ms == 1000
    assert machine.broker.has_room(LISTENER)


def test_listener_of_brokers_has_room_and_who_was_silent_for_longest_goes() -> None:
    machine = InProcess(
        settings={
            "listeners": "PLAINTEXT://127.0.0.1:9092,INTERNAL://127.0.0.1:9094",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "max.connections": "2",
        }
    )
    machine.advance(1)
    silent = machine.connect()
    machine.advance(10)
    busy = machine.connect()

    has_room = machine.broker.has_room("PLAINTEXT"), machine.broker.has_room("INTERNAL")
    broker = machine.connect(listener="INTERNAL")

    assert has_room == (False, True)
    assert [each.closed is None for each in (silent, busy, broker)] == [False, True, True]


def test_listener_may_have_limits_of_its_own() -> None:
    machine = InProcess(
        settings={
            "listeners": "PLAINTEXT://127.0.0.1:9092,INTERNAL://127.0.0.1:9094",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "listener.name.internal.max.connections": "1",
            "listener.name.internal.max.connection.creation.rate": "1",
        }
    )

    before = machine.broker.has_room("INTERNAL")
    machine.connect(listener="INTERNAL")
    waits = [machine.broker.admission("INTERNAL", "10.1.1.1").wait_ms for _ in range(12)]

    assert (before, machine.broker.has_room("INTERNAL")) == (True, False)
    assert machine.broker.has_room("PLAINTEXT")
    assert waits[:10] == [0] * 10
    assert waits[10:] == [1000, 1000]
    assert machine.broker.admission("PLAINTEXT", "10.1.1.1").wait_ms == 0


# -- on sockets ------------------------------------------------------------------------------------


async def until(condition: object) -> None:
    assert callable(condition)
    while not condition():
        await asyncio.sleep(0)


def test_connection_without_room_waits_and_is_served_when_somebody_leaves() -> None:
    machine = InProcess(settings={"max.connections": "1"})

    async def story(served: Served) -> None:
        first = await served.connect()
        first.send(HELLO)
        assert await first.answer()
        second = await served.connect()
        second.send(HELLO)
        await until(lambda: served.runtime._accepting._full)
        assert machine.broker.connection_count == 1
        first.close()
        assert await second.answer()
        second.close()

    serve(machine, story)


def test_connection_without_room_is_served_when_more_are_allowed() -> None:
    machine = InProcess(settings={"max.connections": "1"})
    more = IncrementalAlterConfigsConfig("max.connections", 0, "2")
    resource = IncrementalAlterConfigsResource(BROKER, "", [more])

    async def story(served: Served) -> None:
        first = await served.connect()
        first.send(HELLO)
        assert await first.answer()
        second = await served.connect()
        second.send(HELLO)
        await until(lambda: served.runtime._accepting._full)
        first.send(IncrementalAlterConfigsRequest(resources=[resource]))
        assert await first.answer()
        assert await second.answer()
        first.close()
        second.close()

    serve(machine, story)


def test_address_above_its_rate_is_closed_unanswered() -> None:
    machine = InProcess()
    set_quota(machine, {"ip": "127.0.0.1"}, connection_creation_rate=1)

    async def story(served: Served) -> None:
        peers = [await served.connect() for _ in range(11)]
        for peer in peers[:10]:
            peer.send(HELLO)
            assert await peer.answer()
        await until(lambda: served.runtime._accepting._held)
        assert machine.broker.connection_count == 10
        for sock in list(served.runtime._accepting._held):
            served.runtime._accepting._let_go(sock)
        assert await peers[10].answer() == b""
        for peer in peers:
            peer.close()

    serve(machine, story)


def test_listener_above_its_rate_waits_and_then_serves_everybody() -> None:
    machine = InProcess(settings={"max.connection.creation.rate": "100"})
    machine.broker.quota_agent.connections.broker.windows.record(  # type: ignore[union-attr]
        1001, machine.clock.monotonic_ms()
    )

    async def story(served: Served) -> None:
        peers = [await served.connect() for _ in range(3)]
        for peer in peers:
            peer.send(HELLO)
        for peer in peers:
            assert await peer.answer()
            peer.close()

    serve(machine, story)


def test_sockets_that_wait_are_closed_when_the_runtime_stops() -> None:
    machine = InProcess(settings={"max.connections": "1"})
    set_quota(machine, {"ip": "127.0.0.1"}, connection_creation_rate=1)
    kept: list[socket.socket] = []

    async def story(served: Served) -> None:
        peers = [await served.connect() for _ in range(3)]
        await until(lambda: served.runtime._accepting._full)
        kept.extend(served.runtime._accepting._held)
        for peer in peers:
            peer.close()

    serve(machine, story)

    assert all(each.fileno() < 0 for each in kept)


@pytest.mark.parametrize("is_limited", [False, True])
def test_time_of_turns_is_measured_only_while_somebody_has_a_quota_of_it(
    is_limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = InProcess()
    if is_limited:
        set_quota(machine, {"client-id": None}, request_percentage=50)
    turns: list[int] = []
    monkeypatch.setattr(
        type(machine.broker), "turn_took", lambda broker, number, spent_ns: turns.append(spent_ns)
    )

    async def story(served: Served) -> None:
        peer = await served.connect()
        for _ in range(2):
            peer.send(HELLO)
            assert await peer.answer()
        peer.close()

    serve(machine, story)

    assert bool(turns) == is_limited
    assert all(spent_ns > 0 for spent_ns in turns)
