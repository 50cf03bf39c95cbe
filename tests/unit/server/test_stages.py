"""Stages before the handlers: a test stage answers, closes, delays, mutes, and sees the session."""

from typing import Any

import pytest

from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ledgerstone.security.principal import ANONYMOUS, Principal
from ledgerstone.server.broker import Broker
from ledgerstone.server.dispatch import client_handler, dispatch_through
from ledgerstone.server.request import Answer, Disconnect, Parked, Request
from ledgerstone.server.session import Login, Session
from ledgerstone.server.stages import Handler, Stage, StagedHandlers, Stages
from ledgerstone.types import INT64_MAX, TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import TOPIC, create_topic, write

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
ALICE = Principal("User", "alice")
REFUSED = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def machine_behind(stages: Stages) -> InProcess:
    machine = InProcess()
    machine.broker.dispatch = dispatch_through(stages)
    return machine


def instead(answer: Any) -> Stage[Broker]:
    """A stage that asks `answer` instead of every handler."""

    def stage(api_key: int, handler: Handler[Broker]) -> Handler[Broker]:
        return answer  # type: ignore[no-any-return]

    return stage


def connect_on(machine: InProcess, listener: str) -> Client:
    client = Client(machine, 99)
    machine.clients[99] = client
    machine.perform(machine.broker.connected(99, "10.0.0.9", listener))
    return client


def test_without_an_active_stage_the_handlers_are_called_themselves() -> None:
    composed = StagedHandlers(client_handler, Stages())

    assert composed[ApiKey.FETCH] is client_handler(ApiKey.FETCH)


def test_stage_may_leave_an_api_alone_and_then_costs_it_nothing() -> None:
    def stage(api_key: int, handler: Handler[Broker]) -> Handler[Broker]:
        return handler if api_key == ApiKey.FETCH else lambda *asked: None

    composed = StagedHandlers(client_handler, Stages(quota=stage))

    assert composed[ApiKey.FETCH] is client_handler(ApiKey.FETCH)
    assert composed[ApiKey.PRODUCE] is not client_handler(ApiKey.PRODUCE)


def test_stage_wraps_a_handler_once() -> None:
    wrapped: list[int] = []

    def stage(api_key: int, handler: Handler[Broker]) -> Handler[Broker]:
        wrapped.append(api_key)
        return handler

    composed = StagedHandlers(client_handler, Stages(quota=stage))

    assert composed[ApiKey.FETCH] is composed[ApiKey.FETCH]
    assert wrapped == [ApiKey.FETCH]


def test_stages_are_met_in_their_order_and_the_handler_last() -> None:
    met: list[str] = []

    def noting(name: str) -> Stage[Broker]:
        def stage(api_key: int, handler: Handler[Broker]) -> Handler[Broker]:
            def noted(broker: Broker, request: Request, message: Any) -> Answer:
                met.append(name)
                return handler(broker, request, message)

            return noted

        return stage

    stages = Stages(
        quota=noting("quota"),
        authorised=noting("authorised"),
        authenticated=noting("authenticated"),
    )
    client = machine_behind(stages).connect()

    answer = client.ask(HELLO, ApiVersionsResponse)

    assert met == ["authenticated", "authorised", "quota"]
    assert answer.error_code == ErrorCode.NONE


def test_stage_answers_instead_of_the_handler_and_the_connection_goes_on() -> None:
    def refuse(broker: Broker, request: Request, message: Any) -> Answer:
        return ApiVersionsResponse(error_code=REFUSED)

    machine = machine_behind(Stages(authorised=instead(refuse)))
    client = machine.connect()

    codes = [client.ask(HELLO, ApiVersionsResponse).error_code for _ in range(2)]

    assert codes == [REFUSED, REFUSED]
    assert client.closed is None
    machine.check_invariants()


def test_stage_closes_the_connection() -> None:
    def refuse(broker: Broker, request: Request, message: Any) -> Answer:
        raise Disconnect("not logged in")

    client = machine_behind(Stages(authenticated=instead(refuse))).connect()

    client.send(HELLO)

    assert client.closed == "not logged in"
    assert client.answers == []


def test_stage_delays_its_answer_and_what_came_behind_waits() -> None:
    def slowly(broker: Broker, request: Request, message: Any) -> Answer:
        answer = ApiVersionsResponse(error_code=REFUSED)
        return Parked(
            attempt=lambda time_is_up: answer if time_is_up else None,
            deadline_ms=broker.clock.monotonic_ms() + 100,
        )

    machine = machine_behind(Stages(authenticated=instead(slowly)))
    client = machine.connect()
    client.send(HELLO)
    client.send(HELLO)

    counts = []
    for ms in (99, 1, 100):
        machine.advance(ms)
        counts.append(len(client.answers))

    assert counts == [0, 1, 2]


def test_stage_looks_at_the_answer_says_the_delay_in_it_and_mutes() -> None:
    """As a quota will: the answer leaves at once and names the throttle time."""

    def stage(api_key: int, handler: Handler[Broker]) -> Handler[Broker]:
        def throttled(broker: Broker, request: Request, message: Any) -> Answer:
            answer = handler(broker, request, message)
            assert isinstance(answer, MetadataResponse | ApiVersionsResponse)
            answer.throttle_time_ms = 250
            broker.mute(request.connection, broker.clock.monotonic_ms() + 250)
            return answer

        return throttled

    machine = machine_behind(Stages(quota=stage))
    client = machine.connect()
    client.send(MetadataRequest(topics=[]))
    client.send(HELLO)

    first = client.take(MetadataResponse)
    machine.advance(249)
    early = list(client.answers)
    machine.advance(1)

    assert first.throttle_time_ms == 250
    assert early == []
    assert client.take(ApiVersionsResponse).throttle_time_ms == 250


def test_stage_and_handler_see_the_listener_and_the_principal_of_the_session() -> None:
    seen: list[tuple[str, str, str, Login]] = []

    def stage(api_key: int, handler: Handler[Broker]) -> Handler[Broker]:
        def looking(broker: Broker, request: Request, message: Any) -> Answer:
            session = request.session
            seen.append((session.listener, session.host, str(session.principal), session.login))
            # A login changes the session that later requests carry.
            session.principal = ALICE
            return handler(broker, request, message)

        return looking

    client = connect_on(machine_behind(Stages(authenticated=stage)), "INTERNAL")

    client.send(HELLO)
    client.send(HELLO)

    assert seen == [
        ("INTERNAL", "10.0.0.9", "User:ANONYMOUS", Login.COMPLETE),
        ("INTERNAL", "10.0.0.9", "User:alice", Login.COMPLETE),
    ]


def test_requests_of_a_connection_share_its_session_and_no_other_does() -> None:
    machine = InProcess()
    sessions: list[Session] = []
    honest = machine.broker.dispatch

    def dispatch(broker: Broker, request: Request, message: Any) -> Answer:
        sessions.append(request.session)
        return honest(broker, request, message)

    machine.broker.dispatch = dispatch
    one, two = machine.connect(), machine.connect()

    for client in (one, one, two):
        client.send(HELLO)

    assert sessions[0] is sessions[1]
    assert sessions[2] is not sessions[0]
    assert {each.principal for each in sessions} == {ANONYMOUS}


@pytest.mark.parametrize("error", [Disconnect("wrong password"), RuntimeError("a bug")])
def test_delayed_request_that_fails_closes_its_connection_and_no_other(error: Exception) -> None:
    """Before, one that failed took the answers of all others that were due with it."""

    def slowly(broker: Broker, request: Request, message: Any) -> Answer:
        def attempt(time_is_up: bool) -> ApiVersionsResponse | None:
            if time_is_up and request.connection == unlucky.number:
                raise error
            return ApiVersionsResponse() if time_is_up else None

        return Parked(attempt=attempt, deadline_ms=broker.clock.monotonic_ms() + 100)

    machine = machine_behind(Stages(authenticated=instead(slowly)))
    first, unlucky, last = machine.connect(), machine.connect(), machine.connect()
    for client in (first, unlucky, last):
        client.send(HELLO)

    machine.advance(100)

    assert unlucky.closed == str(error)
    assert [len(client.answers) for client in (first, unlucky, last)] == [1, 0, 1]
    machine.check_invariants()


def test_growth_that_makes_a_parked_request_fail_costs_the_writer_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = InProcess()
    writer, waiting = machine.connect(), machine.connect()
    create_topic(writer)

    def fail(time_is_up: bool) -> ApiVersionsResponse | None:
        raise RuntimeError("a bug")

    def dispatch(broker: Broker, request: Request, message: Any) -> Answer:
        return Parked(attempt=fail, deadline_ms=INT64_MAX, keys=[TopicPartition(TOPIC, 0)])

    honest, machine.broker.dispatch = machine.broker.dispatch, dispatch
    waiting.send(HELLO)
    machine.broker.dispatch = honest

    offsets = write(writer, "a", "b")

    assert offsets == [0, 1]
    assert waiting.closed == "a bug"
    assert "parked request failed" in caplog.text
