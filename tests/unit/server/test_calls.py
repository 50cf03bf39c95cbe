"""Requests to other nodes: bytes in, bytes out, time on a virtual clock."""

import struct
from collections.abc import Iterable

import pytest

from ledgerstone.protocol.api import advertised
from ledgerstone.protocol.codec import encode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from ledgerstone.protocol.messages.vote import VoteRequest
from ledgerstone.protocol.server_connection import ConnectionLimits, ServerConnection
from ledgerstone.raft.replica import Peer
from ledgerstone.server.calls import CallFailed, Calls
from ledgerstone.server.effects import Dial, Effect, Hangup, Send
from ledgerstone.server.results import DialFailed, Dialled
from ledgerstone.sim.clock import VirtualClock

NODE = Peer(7, "node-7.example", 9093)
OTHER = Peer(8, "node-8.example", 9093)
KEYS = (3, 12, 18)


class Turn:
    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def act(self, effects: Iterable[Effect]) -> None:
        self.effects.extend(effects)

    def take(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects


class Wires:
    """Performs effects by hand: every node is a server side of our own."""

    def __init__(self, *, max_answer_bytes: int = 1 << 20) -> None:
        self.clock, self.turn = VirtualClock(), Turn()
        self.calls = Calls(
            "quorum",
            self.clock,
            client_id="me",
            turn=self.turn,
            max_answer_bytes=max_answer_bytes,
        )
        self.answers: dict[str, list[ApiMessage | CallFailed]] = {}
        self.dials: list[Dial] = []
        self.hangups: list[int] = []
        self.servers: dict[int, ServerConnection] = {}
        self._next_number = 1

    def ask(
        self,
        name: str,
        request: ApiMessage,
        peer: Peer = NODE,
        *,
        timeout_ms: int = 1_000,
        least_version: int = 0,
    ) -> None:
        heard = self.answers.setdefault(name, [])
        self.calls.ask(
            peer, request, heard.append, timeout_ms=timeout_ms, least_version=least_version
        )
        self.perform(self.turn.take())

    def perform(self, effects: Iterable[Effect]) -> None:
        for effect in [*effects, *self.turn.take()]:
            if isinstance(effect, Dial):
                self.dials.append(effect)
            elif isinstance(effect, Hangup):
                self.hangups.append(effect.connection)
            else:
                assert isinstance(effect, Send)
                data = b"".join(effect.pieces)  # type: ignore[arg-type]
                self.servers[effect.connection].receive_data(data)

    def tick(self, ms: int = 0) -> None:
        self.clock.advance(ms=ms)
        self.perform(self.calls.tick())

    def connect(self) -> int:
        """The oldest dial succeeds; nothing is negotiated yet."""
        number, self._next_number = self._next_number, self._next_number + 1
        self.servers[number] = ServerConnection(ConnectionLimits())
        self.perform(self.calls.completed(self.dials.pop(0), Dialled(number)))
        return number

    def refuse(self, reason: str = "refused") -> None:
        self.perform(self.calls.completed(self.dials.pop(0), DialFailed(reason)))

    def answer(self, number: int, response: ApiMessage) -> ApiMessage:
        """Answers the oldest request; returns it."""
        asked = self.servers[number].next_request()
        assert asked is not None
        self.servers[number].respond(response)
        self.deliver(number, b"".join(self.servers[number].data_to_send()))  # type: ignore[arg-type]
        return asked.message

    def deliver(self, number: int, data: bytes) -> None:
        self.perform(self.calls.received(number, memoryview(data)))

    def ready(self, keys: Iterable[int] = KEYS) -> int:
        number = self.connect()
        self.answer(number, ApiVersionsResponse(api_keys=advertised(keys)))
        return number

    def lose(self, number: int, reason: str = "gone") -> None:
        self.perform(self.calls.lost(number, reason))


def heartbeat(group: str = "g") -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, member_id="m")


def test_first_request_dials_negotiates_and_is_answered() -> None:
    wires = Wires()
    wires.ask("a", heartbeat())
    assert [(each.node, each.host, each.port, each.purpose) for each in wires.dials] == [
        (7, NODE.host, NODE.port, "quorum")
    ]
    number = wires.ready()
    assert wires.answers["a"] == []

    asked = wires.answer(number, HeartbeatResponse(error_code=27))

    assert isinstance(asked, HeartbeatRequest)
    assert asked.group_id == "g"
    assert [type(each) for each in wires.answers["a"]] == [HeartbeatResponse]
    assert wires.calls.in_flight == 0


def test_later_requests_reuse_the_connection_in_order() -> None:
    wires = Wires()
    wires.ask("a", heartbeat("1"))
    number = wires.ready()
    wires.ask("b", heartbeat("2"))
    wires.ask("c", MetadataRequest())
    assert wires.dials == []
    assert wires.calls.in_flight == 3

    wires.answer(number, HeartbeatResponse(error_code=1))
    wires.answer(number, HeartbeatResponse(error_code=2))
    wires.answer(number, MetadataResponse())

    assert [each.error_code for each in wires.answers["b"]] == [2]  # type: ignore[union-attr]
    assert [type(each) for each in wires.answers["c"]] == [MetadataResponse]


def test_two_nodes_have_two_connections() -> None:
    wires = Wires()
    wires.ask("a", heartbeat())
    wires.ask("b", heartbeat(), OTHER)
    first, second = wires.ready(), wires.ready()
    wires.answer(second, HeartbeatResponse())
    assert wires.answers["a"] == []
    assert len(wires.answers["b"]) == 1
    wires.answer(first, HeartbeatResponse())
    assert len(wires.answers["a"]) == 1


def test_node_that_refuses_our_api_versions_is_asked_in_the_oldest() -> None:
    wires = Wires()
    wires.ask("a", heartbeat())
    number = wires.connect()
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    body = b"".join(encode_response(refusal, 0))  # type: ignore[arg-type]
    wires.servers[number].next_request()
    wires.servers[number].skip_response()
    wires.deliver(number, struct.pack(">ii", len(body) + 4, 0) + body)

    asked = wires.servers[number].next_request()
    assert asked is not None
    assert asked.header.api_version == 0
    wires.servers[number].respond(ApiVersionsResponse(api_keys=[ApiVersion(12, 0, 1)]))
    wires.deliver(number, b"".join(wires.servers[number].data_to_send()))  # type: ignore[arg-type]

    received = wires.servers[number].next_request()
    assert received is not None
    assert received.header.api_version == 1


@pytest.mark.parametrize(
    ("offered", "least_version"), [([ApiVersion(12, 0, 3)], 0), ([ApiVersion(52, 0, 1)], 2)]
)
def test_unknown_api_or_too_old_a_version_fails_as_unsupported(
    offered: list[ApiVersion], least_version: int
) -> None:
    wires = Wires()
    wires.ask("a", VoteRequest(), least_version=least_version)
    wires.ask("b", heartbeat())
    number = wires.connect()
    wires.answer(number, ApiVersionsResponse(api_keys=[*offered, ApiVersion(12, 0, 3)]))

    (failed,) = wires.answers["a"]
    assert isinstance(failed, CallFailed)
    assert failed.is_unsupported
    wires.answer(number, HeartbeatResponse())
    assert [type(each) for each in wires.answers["b"]] == [HeartbeatResponse]


def test_unsupported_request_on_an_open_connection_fails_after_ask_has_returned() -> None:
    wires = Wires()
    wires.ask("a", heartbeat())
    number = wires.ready()
    wires.answer(number, HeartbeatResponse())

    wires.ask("b", VoteRequest())
    assert wires.answers["b"] == []
    assert wires.calls.next_deadline_ms == 0
    wires.tick()
    assert [type(each) for each in wires.answers["b"]] == [CallFailed]


def test_answer_too_late_costs_the_connection_and_what_was_behind_it() -> None:
    wires = Wires()
    wires.ask("a", heartbeat(), timeout_ms=500)
    number = wires.ready()
    wires.ask("b", heartbeat(), timeout_ms=5_000)
    assert wires.calls.next_deadline_ms == 500
    wires.tick(499)
    assert wires.answers["a"] == []

    wires.tick(1)

    assert [type(each) for each in wires.answers["a"]] == [CallFailed]
    assert [type(each) for each in wires.answers["b"]] == [CallFailed]
    assert wires.hangups == [number]
    # Bytes on their way when we hung up.
    wires.deliver(number, b"late")
    assert wires.calls.in_flight == 0


def test_node_that_never_negotiates_fails_in_time_and_is_given_up() -> None:
    wires = Wires()
    wires.ask("a", heartbeat(), timeout_ms=500)
    number = wires.connect()
    wires.tick(500)
    assert [type(each) for each in wires.answers["a"]] == [CallFailed]
    assert wires.hangups == [number]


def test_silent_node_is_given_up_though_there_is_always_another_request() -> None:
    wires = Wires()
    wires.ask("first", heartbeat())
    number = wires.connect()
    for name in ("second", "third"):
        wires.tick(600)
        wires.ask(name, heartbeat())
    assert isinstance(wires.answers["first"][0], CallFailed)
    assert wires.hangups == [number]
    wires.tick(50)
    number = wires.ready()
    wires.answer(number, HeartbeatResponse())
    assert isinstance(wires.answers["second"][0], HeartbeatResponse)


def test_lost_connection_fails_what_was_under_way_and_the_next_request_dials_at_once() -> None:
    wires = Wires()
    wires.ask("a", heartbeat())
    number = wires.ready()
    wires.ask("b", heartbeat())
    wires.lose(number, "cut")
    assert wires.answers == {"a": [CallFailed("cut")], "b": [CallFailed("cut")]}

    wires.ask("c", heartbeat())
    assert len(wires.dials) == 1


def test_unreachable_node_is_dialled_again_after_a_growing_back_off() -> None:
    wires = Wires()
    waits = []
    for attempt in range(6):
        wires.ask(f"a{attempt}", heartbeat(), timeout_ms=60_000)
        if not wires.dials:
            due_ms = wires.calls.next_deadline_ms
            assert due_ms is not None
            waits.append(due_ms - wires.clock.monotonic_ms())
            wires.tick(waits[-1] - 1)
            assert wires.dials == []
            wires.tick(1)
        wires.refuse()
        assert wires.answers[f"a{attempt}"] == [CallFailed("refused")]
    assert waits == [50, 100, 200, 400, 500]


def test_back_off_starts_over_once_a_node_has_negotiated() -> None:
    wires = Wires()
    for attempt in range(3):
        wires.ask(f"a{attempt}", heartbeat(), timeout_ms=60_000)
        wires.tick(1_000)
        wires.refuse()
    wires.ask("b", heartbeat(), timeout_ms=60_000)
    wires.tick(1_000)
    wires.lose(wires.ready())
    wires.ask("c", heartbeat(), timeout_ms=60_000)
    wires.refuse()
    wires.ask("d", heartbeat(), timeout_ms=60_000)
    due_ms = wires.calls.next_deadline_ms
    assert due_ms is not None
    assert due_ms - wires.clock.monotonic_ms() == 50


def test_request_that_expires_during_the_back_off_fails_without_a_dial() -> None:
    wires = Wires()
    wires.ask("a", heartbeat())
    wires.refuse()
    wires.ask("b", heartbeat(), timeout_ms=10)
    wires.tick(10)
    assert [type(each) for each in wires.answers["b"]] == [CallFailed]
    assert wires.dials == []


def test_announced_size_beyond_the_limit_breaks_the_connection() -> None:
    wires = Wires(max_answer_bytes=10_000)
    wires.ask("a", heartbeat())
    number = wires.ready()
    wires.deliver(number, struct.pack(">i", 10_001))
    (failed,) = wires.answers["a"]
    assert isinstance(failed, CallFailed)
    assert "broke the protocol" in failed.reason
    assert wires.hangups == [number]


def test_answer_to_nothing_breaks_the_connection() -> None:
    wires = Wires()
    wires.ask("a", heartbeat())
    number = wires.ready()
    wires.deliver(number, struct.pack(">ii", 4, 99))
    assert [type(each) for each in wires.answers["a"]] == [CallFailed]
    assert wires.hangups == [number]


def test_callback_may_ask_again() -> None:
    wires = Wires()
    heard: list[ApiMessage | CallFailed] = []

    def again(answer: ApiMessage | CallFailed) -> None:
        heard.append(answer)
        if len(heard) < 3:
            wires.calls.ask(NODE, heartbeat(), again, timeout_ms=1_000)

    wires.calls.ask(NODE, heartbeat(), again, timeout_ms=1_000)
    wires.perform([])
    number = wires.ready()
    wires.answer(number, HeartbeatResponse())
    wires.lose(number)
    wires.lose(wires.ready())
    assert [type(each) for each in heard] == [HeartbeatResponse, CallFailed, CallFailed]
    assert wires.calls.in_flight == 0


def test_callback_that_raises_is_called_once_and_the_others_fail_with_the_connection() -> None:
    wires = Wires()
    heard: list[ApiMessage | CallFailed] = []

    def broken(answer: ApiMessage | CallFailed) -> None:
        heard.append(answer)
        raise RuntimeError("a bug")

    wires.calls.ask(NODE, heartbeat(), broken, timeout_ms=1_000)
    wires.perform([])
    number = wires.ready()
    wires.ask("b", heartbeat())
    with pytest.raises(RuntimeError):
        wires.answer(number, HeartbeatResponse())
    wires.lose(number, "its bytes could not be taken")
    assert len(heard) == 1
    assert wires.answers["b"] == [CallFailed("its bytes could not be taken")]


def test_without_a_turn_the_next_tick_returns_what_was_asked_for() -> None:
    calls = Calls("quorum", VirtualClock(), client_id="me")
    calls.ask(NODE, heartbeat(), lambda answer: None, timeout_ms=1_000)
    assert calls.next_deadline_ms == 0
    assert [type(each) for each in calls.tick()] == [Dial]


def test_large_answer_is_received_in_place() -> None:
    wires = Wires()
    wires.ask("a", MetadataRequest())
    number = wires.ready()
    asked = wires.servers[number].next_request()
    assert asked is not None
    topics = [MetadataResponseTopic(name=f"topic-{each}") for each in range(20_000)]
    wires.servers[number].respond(MetadataResponse(topics=topics))
    data = b"".join(wires.servers[number].data_to_send())  # type: ignore[arg-type]
    assert wires.calls.room(number) is None
    wires.deliver(number, data[:100])

    sent = 100
    while (room := wires.calls.room(number)) is not None:
        part = data[sent : sent + min(len(room), 50_000)]
        room[: len(part)] = part
        room.release()
        sent += len(part)
        wires.perform(wires.calls.filled(number, len(part)))
    wires.deliver(number, data[sent:])
    (answer,) = wires.answers["a"]
    assert isinstance(answer, MetadataResponse)
    assert len(answer.topics) == 20_000
