"""The JSON API over a broker without sockets, and the HTTP in front of it."""

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone.clock import Clock
from ledgerstone.server.http.api import handle
from ledgerstone.server.http.monitor import readiness, samples
from ledgerstone.server.http.server import HttpRequest, HttpServer, Page, SlowPage
from ledgerstone.server.http.wire import MAX_BODY_BYTES
from ledgerstone.server.movable_clock import MovableClock
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import TOPIC, create_topic, produced

TP = TopicPartition(TOPIC, 0)
HOUR_MS = 3_600_000


def call(machine: InProcess, method: str, path: str, **content: Any) -> tuple[int, Any]:
    path, _, query = path.partition("?")
    pairs = dict(pair.split("=") for pair in query.split("&") if pair)
    body = json.dumps(content).encode() if method == "POST" else b""
    page = handle(machine.broker, HttpRequest(method, f"/api/v1/{path}", pairs, {}, body))
    assert page is not None
    return page.status, json.loads(page.body)


def deleted_key(machine: InProcess, client: Client) -> None:
    create_topic(client, cleanup_policy="compact", delete_retention_ms=str(HOUR_MS))
    for value in ("1", None):
        produced(client, batch(("a", value), timestamp=machine.clock.now_ms()))


def test_compaction_is_asked_for_and_its_ticket_tells_what_was_dropped(
    machine: InProcess, client: Client
) -> None:
    deleted_key(machine, client)

    asked = call(machine, "POST", f"topics/{TOPIC}/compact")
    machine.tick()
    number = asked[1]["tickets"][0]["ticket"]
    status, ticket = call(machine, "GET", f"tickets/{number}")

    assert asked[0] == status == 200
    assert not asked[1]["tickets"][0]["done"]
    assert ticket["done"]
    assert ticket["run"]["stats"]["dropped_superseded"] == 1


def test_status_has_the_gates_and_what_is_due(machine: InProcess, client: Client) -> None:
    deleted_key(machine, client)
    call(machine, "POST", f"topics/{TOPIC}/compact")
    machine.tick()

    _, answer = call(machine, "GET", f"topics/{TOPIC}/cleaning")

    (partition,) = answer["partitions"]
    horizon_ms = machine.clock.now_ms() + HOUR_MS
    assert partition["earliest_horizon_ms"] == horizon_ms
    assert partition["due"] == [{"reason": "a delete horizon has passed", "at_ms": horizon_ms}]
    assert partition["gates"][-1]["name"] == "horizon"
    assert partition["last_run"]["outcome"] == "cleaned"


def test_history_has_the_newest_run_first(machine: InProcess, client: Client) -> None:
    deleted_key(machine, client)
    for _ in range(2):
        call(machine, "POST", f"topics/{TOPIC}/compact")
        machine.tick()
        machine.clock.advance(ms=5)

    _, everything = call(machine, "GET", "cleaner/history")
    _, other = call(machine, "GET", f"cleaner/history?topic={TOPIC}&partition=7")

    ended = [run["ended_ms"] for run in everything["runs"]]
    assert len(ended) == 2
    assert ended == sorted(ended, reverse=True)
    assert other["runs"] == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "nothing", 404),
        ("GET", "topics/absent/cleaning", 404),
        ("POST", "topics/absent/compact", 404),
        ("GET", "tickets/99", 404),
        ("GET", "tickets/x", 404),
        ("POST", "clock", 405),
        ("GET", "clock/advance", 405),
        ("POST", "clock/advance", 409),
    ],
)
def test_what_cannot_be_done_is_refused_in_json(
    machine: InProcess, method: str, path: str, status: int
) -> None:
    found, answer = call(machine, method, path)

    assert found == status
    assert answer["error"]


def test_topic_that_is_not_compacted_cannot_be_compacted(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)

    status, answer = call(machine, "POST", f"topics/{TOPIC}/compact")

    assert status == 409
    assert "cleanup.policy" in answer["error"]


def test_partition_that_is_not_there_cannot_be_compacted(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, cleanup_policy="compact")

    assert call(machine, "POST", f"topics/{TOPIC}/compact", partition=1)[0] == 404
    assert call(machine, "POST", f"topics/{TOPIC}/compact", partition="0")[0] == 404


def test_path_that_is_not_of_the_api_is_left_to_others(machine: InProcess) -> None:
    assert handle(machine.broker, HttpRequest("GET", "/metrics", {}, {})) is None


# -- the clock ----------------------------------------------------------------------------------


def test_virtual_clock_moves_wall_time_and_not_waiting(machine: InProcess) -> None:
    base: Clock = machine.clock
    clock = MovableClock(base)

    clock.advance(HOUR_MS)

    assert clock.now_ms() == base.now_ms() + HOUR_MS
    assert clock.monotonic_ms() == base.monotonic_ms()
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


@pytest.mark.parametrize("ms", [-1, "5", 1.5, True, None, 10**18])
def test_clock_refuses_what_is_no_time(machine: InProcess, ms: object) -> None:
    machine.broker.clock = MovableClock(machine.clock)

    assert call(machine, "POST", "clock/advance", ms=ms)[0] == 400


def test_clock_that_was_moved_makes_the_broker_look_at_once(machine: InProcess) -> None:
    machine.broker.clock = MovableClock(machine.clock)
    machine.tick()

    status, answer = call(machine, "POST", "clock/advance", ms=25 * HOUR_MS)

    assert (status, answer["ahead_ms"]) == (200, 25 * HOUR_MS)
    assert machine.broker.next_deadline_ms == 0


# -- health and metrics -------------------------------------------------------------------------


def test_overdue_delete_makes_the_broker_not_ready(machine: InProcess, client: Client) -> None:
    deleted_key(machine, client)
    machine.held_passes = []
    before = readiness(machine.broker)

    machine.jump(hours=26)
    after = readiness(machine.broker)

    assert before.status == 200
    assert after.status == 503
    assert f"{TP}: a delete is overdue by 7200 s" in after.body


def test_health_says_nothing_of_overdue_deletes_where_that_is_switched_off() -> None:
    machine = InProcess(settings={"ledgerstone.cleaner.overdue.ms": "0"})
    deleted_key(machine, machine.connect())
    machine.held_passes = []

    machine.jump(days=9)

    assert readiness(machine.broker).status == 200


def test_metrics_have_kafkas_gauges_and_ours_for_each_partition(
    machine: InProcess, client: Client
) -> None:
    deleted_key(machine, client)
    call(machine, "POST", f"topics/{TOPIC}/compact")
    machine.tick()

    values = {
        (sample.name, sample.labels): sample.value
        for sample in samples(machine.broker)
        if "cleaner" in sample.name or ("topic", TOPIC) in sample.labels
    }

    own = (("topic", TOPIC), ("partition", "0"))
    horizon_ms = machine.clock.now_ms() + HOUR_MS
    assert values["kafka_log_logcleaner_deadthreadcount", ()] == 0
    assert values["kafka_log_logcleanermanager_max_dirty_percent", ()] == 0
    assert values["ledgerstone_cleaner_passes_total", ()] == 1
    assert values["ledgerstone_earliest_horizon_seconds", own] == horizon_ms / 1000
    assert values["ledgerstone_tombstones_fresh", own] == 0
    dropped = (*own, ("reason", "superseded"))
    assert values["ledgerstone_last_pass_dropped_records", dropped] == 1


# -- HTTP ---------------------------------------------------------------------------------------


def alive() -> Page:
    return Page(200, "alive\n")


def exchange(
    raw: bytes, *, host: str = "127.0.0.1", slow: Callable[[], Page | SlowPage] = alive
) -> bytes:
    """One connection to a server whose API answers with what it was sent."""

    def echo(request: HttpRequest) -> Page | None:
        if not request.path.startswith("/api"):
            return None
        return Page(200, f"{request.method} {request.path} {dict(request.query)} {request.body!r}")

    async def talk() -> bytes:
        server = HttpServer({"/livez": alive, "/slow": slow}, echo)
        listener = socket.create_server((host, 0))
        port = (await server.start(listener))[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw)
        answer = await reader.read()
        writer.close()
        await server.stop()
        return answer

    return asyncio.run(talk())


def posted(body: bytes, *headers: str, host: str = "127.0.0.1") -> bytes:
    given = headers or ("Host: localhost:80", "Content-Type: application/json")
    lines = ["POST /api/x HTTP/1.1", *given, f"Content-Length: {len(body)}", "", ""]
    return exchange("\r\n".join(lines).encode() + body, host=host)


def test_page_and_api_are_served() -> None:
    assert exchange(b"GET /livez HTTP/1.1\r\n\r\n").endswith(b"alive\n")
    assert exchange(b"GET /api/x?a=1 HTTP/1.1\r\n\r\n").endswith(b"GET /api/x {'a': '1'} b''")
    assert exchange(b"GET /other HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 404 ")


def test_others_have_their_turn_while_a_page_is_made() -> None:
    turns: list[str] = []

    def slow() -> SlowPage:
        for _ in range(3):
            asyncio.get_running_loop().call_soon(turns.append, "another")
            turns.append("page")
            yield None
        return Page(200, "made\n")

    answer = exchange(b"GET /slow HTTP/1.1\r\n\r\n", slow=slow)

    assert answer.endswith(b"made\n")
    assert turns == ["page", "another"] * 3


def test_page_that_fails_while_it_is_made_is_told_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def slow() -> SlowPage:
        yield None
        raise ValueError("no page")

    answer = exchange(b"GET /slow HTTP/1.1\r\n\r\n", slow=slow)

    assert answer.startswith(b"HTTP/1.1 500 ")
    assert "no page" in caplog.text


def test_body_is_read_as_long_as_it_says() -> None:
    assert posted(b'{"ms":1}').endswith(b"POST /api/x {} b'{\"ms\":1}'")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (("Host: evil.example", "Content-Type: application/json"), b"403"),
        (("Host: 10.0.0.1:80", "Content-Type: application/json"), b"403"),
        (("Content-Type: application/json",), b"403"),
        (("Host: 127.0.0.1:80", "Content-Type: text/plain"), b"415"),
        (("Host: [::1]:80", "Content-Type: application/json"), b"200"),
        (("Host: localhost", "Content-Type: application/json; charset=utf-8"), b"200"),
        (("Host: localhost", "Transfer-Encoding: chunked"), b"411"),
        (("Host: localhost", "no colon"), b"400"),
    ],
)
def test_changes_are_taken_only_from_programs_on_this_machine(
    headers: tuple[str, ...], status: bytes
) -> None:
    assert posted(b"{}", *headers).split(b" ")[1] == status


def test_changes_are_refused_where_the_port_is_open_to_others() -> None:
    assert posted(b"{}", host="0.0.0.0").split(b" ")[1] == b"403"


@pytest.mark.parametrize(
    ("length", "status"),
    [(str(MAX_BODY_BYTES + 1), b"413"), ("-1", b"400"), ("9" * 30, b"400"), ("1e3", b"400")],
)
def test_length_of_a_body_is_not_believed_blindly(length: str, status: bytes) -> None:
    raw = f"POST /api/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"

    assert exchange(raw.encode()).split(b" ")[1] == status


@pytest.mark.parametrize("raw", [b"\r\n\r\n", b"GET /livez\r\n\r\n", b"GET " + b"x" * 9000])
def test_what_is_not_http_is_refused(raw: bytes) -> None:
    assert exchange(raw).split(b" ")[1] == b"400"
