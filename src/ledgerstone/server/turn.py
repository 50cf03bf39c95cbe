"""A turn of a broker: requests of connections in, answers and other effects out. Grade D.

One request of a connection is in work at a time, and answers leave in order. Whoever waited for
what happened in a turn is served after its answers and before the next turn. What an API does is in
handlers/, never here; nothing here knows a loop.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.server_connection import ServerConnection
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.server.effects import Close, Effect, FollowUp, Resume, Send
from ledgerstone.server.metrics import Counters
from ledgerstone.server.peers import Peer, Peers
from ledgerstone.server.purgatory import Ended, Purgatory
from ledgerstone.server.quotas.client_quotas import ClientQuotas
from ledgerstone.server.request import (
    Answer,
    Disconnect,
    Encoded,
    Farewell,
    InnerRequest,
    Later,
    Parked,
    Request,
    Response,
    outermost,
)
from ledgerstone.server.throttle import LogThrottle
from ledgerstone.types import INT64_MAX, TopicPartition

_LOG: Final = logging.getLogger(__name__)

# Answers emitted for one connection before its socket must have taken them.
_ANSWER_BYTES_PER_TURN: Final = 1 << 20
# Requests served for one connection before the others get their turn.
_REQUESTS_PER_TURN: Final = 64
# Between the last answer of a connection and its end.
_LINGER_MS: Final = 50
# APIs that make nothing due sooner, but the end of their own waiting.
_UNSCHEDULED: Final = (0, 1)
# APIs whose requests are views of their frames; the others were copied out of them.
_KEEPS_FRAME: Final = (0,)
# What a request may fail with when nothing can be answered; anything else is a fault of ours.
_REFUSALS: Final = (KafkaError, StorageError, ProtocolViolation, Disconnect, OSError)


@dataclass(slots=True, kw_only=True)
class BrokerTurn:
    """What a turn needs of a broker. Not a part of it but what it is built on: one call less for
    every request."""

    clock: Clock
    # Its first argument is the broker.
    dispatch: Callable[[Any, Request, ApiMessage], Answer]
    counters: Counters = field(default_factory=Counters)
    purgatory: Purgatory = field(default_factory=Purgatory)
    peers: Peers = field(init=False)
    quotas: ClientQuotas = field(init=False)
    _effects: list[Effect] = field(default_factory=list)
    # Partitions that grew since effects were last taken: who waits for them is tried then.
    _grown: dict[TopicPartition, None] = field(default_factory=dict)
    # Connections whose waiting request was answered: what came behind it is served then.
    _answered: dict[int, None] = field(default_factory=dict)
    _faults: LogThrottle = field(default_factory=LogThrottle)
    # `next_deadline_ms` may have come closer; the runtime sets it back when it has looked.
    may_be_due_sooner: bool = True
    # When `tick` is called at the latest; kept by the runtime.
    wakes_ms: int = INT64_MAX

    # -- serving ------------------------------------------------------------------------------

    def _serve(self, peer: Peer) -> None:
        """Serves requests of one connection until one has to wait or its turn is over."""
        budget, requests = _ANSWER_BYTES_PER_TURN, _REQUESTS_PER_TURN
        wire, session = peer.wire, peer.session
        has_quotas = self.quotas.is_active
        peer.is_cut_short = False
        while peer.in_work is None and not peer.is_closing:
            if budget <= 0 or requests == 0 or session.muted_until_ms:
                peer.is_cut_short = True
                break
            requests -= 1
            try:
                received = wire.next_request()
                if received is None:
                    # There is more where many were answered without being handed out.
                    peer.is_cut_short = wire.has_news
                    break
                # Noted before the handler runs: a machine it calls may answer in the same turn.
                request = peer.in_work = Request(
                    peer.number,
                    *received.header,
                    session,
                    peer.last_active_ms,
                    received.frame_bytes,
                )
                answer = self.dispatch(self, request, received.message)
            except _REFUSALS as error:
                self._send(peer)
                self._close(peer, str(error), kind=type(error).__name__)
                return
            # The frame's memory is used again once it is answered, so nothing may look at it.
            del received
            if isinstance(answer, Parked):
                if request.api_key not in _KEEPS_FRAME:
                    wire.let_go_of_frame()
                self.purgatory.park(request, answer)
                if answer.deadline_ms < self.wakes_ms or request.api_key not in _UNSCHEDULED:
                    self.may_be_due_sooner = True
                continue
            if request.api_key not in _UNSCHEDULED:
                self.may_be_due_sooner = True
            if isinstance(answer, Later):
                if request.api_key not in _KEEPS_FRAME:
                    wire.let_go_of_frame()
                continue
            peer.in_work = None
            if has_quotas and type(answer) is not Encoded:
                answer = self._charged(request, answer)
            if answer is None:
                wire.skip_response()
            else:
                budget -= self._respond(wire, answer)
        self._send(peer)

    def _charged(self, request: Request, answer: Response | None) -> Response | None:
        """Counts what was asked and answered. Whoever has used too much waits from now on."""
        now_ms = self.clock.monotonic_ms()
        answer, throttle_ms = self.quotas.answered(request, answer, now_ms)
        if throttle_ms:
            self.mute(request.connection, now_ms + throttle_ms)
        return answer

    def _respond(self, wire: ServerConnection, answer: Response) -> int:
        if type(answer) is bytes:
            return wire.respond(answer)
        if type(answer) is Encoded:
            return wire.respond(answer.pieces, answer.size)
        assert isinstance(answer, ApiMessage)
        # Where there is a code for the whole answer, it has this name.
        code = getattr(answer, "error_code", 0)
        if code:
            self.counters.answered_error(answer.name, code)
        return wire.respond(answer)

    def _send(self, peer: Peer) -> None:
        """Hands what the connection has to say to the runtime."""
        pieces = peer.wire.data_to_send()
        if pieces:
            self._effects.append(Send(peer.number, pieces))

    # -- requests that had to wait ----------------------------------------------------------------

    def answer(self, request: Request, response: ApiMessage | Encoded) -> None:
        """Answers a request that had to wait.

        What came behind it is served once the machine that answers is done: its next request may
        change that very machine, or answer the one that is being handled."""
        while isinstance(request, InnerRequest):
            assert isinstance(response, ApiMessage), response
            response, request = request.wrapped(response), request.outer
        peer = self.peers.by_number.get(request.connection)
        if peer is None or peer.in_work is not request or peer.is_closing:
            return
        peer.in_work = None
        answer: Response | None = response
        if self.quotas.is_active and type(response) is not Encoded:
            answer = self._charged(request, response)
        assert answer is not None
        self._respond(peer.wire, answer)
        self._send(peer)
        self._answered[peer.number] = None

    def wire_of(self, request: Request) -> ServerConnection:
        """Of a request in work: its connection is there."""
        return self.peers.by_number[request.connection].wire

    def is_awaited(self, request: Request) -> bool:
        """Whether its client is still there and waits for the answer."""
        peer = self.peers.by_number.get(request.connection)
        return peer is not None and peer.in_work is outermost(request) and not peer.is_closing

    def finish(self, request: Request, answer: Answer | Exception) -> None:
        """Does with a handler's answer what would have been done, had it returned it itself."""
        if isinstance(answer, Later) or not self.is_awaited(request):
            return
        if isinstance(answer, Parked):
            while isinstance(request, InnerRequest):
                answer, request = answer.with_answer(request.wrapped), request.outer
            self.purgatory.park(request, answer)
            self.may_be_due_sooner = True
        elif answer is None:
            peer = self.peers.by_number[request.connection]
            peer.in_work = None
            if self.quotas.is_active:
                self._charged(outermost(request), None)
            peer.wire.skip_response()
            self._answered[peer.number] = None
        elif isinstance(answer, bytes):
            raise AssertionError(f"encoded for another turn: {answer.hex()}")
        else:
            self._end_parked([(request, answer)])

    def _end_parked(self, ended: Ended) -> None:
        for request, outcome in ended:
            if isinstance(outcome, Farewell):
                self._bid_farewell(request, outcome)
                continue
            if not isinstance(outcome, Exception):
                self.answer(request, outcome)
                continue
            if not isinstance(outcome, _REFUSALS):
                kind = f"parked request failed {type(outcome).__name__}"
                suppressed = self._faults.admit(kind, self.clock.monotonic_ms())
                if suppressed is not None:
                    _LOG.error("%s suppressed=%d", kind, suppressed, exc_info=outcome)
            peer = self.peers.by_number[request.connection]
            if not peer.is_closing:
                self._close(peer, str(outcome), kind=type(outcome).__name__)

    def _bid_farewell(self, request: Request, farewell: Farewell) -> None:
        peer = self.peers.by_number[request.connection]
        if peer.is_closing:
            return
        if farewell.message is None:
            self._close(peer, farewell.reason, kind="login")
            return
        self.answer(request, farewell.message)
        # Some clients take what comes together with the end of a connection for nothing.
        peer.farewell = farewell.reason
        self.mute(peer.number, self.clock.monotonic_ms() + _LINGER_MS)

    # -- connections that have to wait, or to go --------------------------------------------------

    def mute(self, connection: int, until_ms: int) -> None:
        """Answers still leave; the connection is not read or served before then."""
        self.peers.mute(connection, until_ms)
        self.may_be_due_sooner = True

    def _unmuted(self, peer: Peer) -> None:
        if peer.farewell is None:
            self._effects.append(Resume(peer.number))
        elif not peer.is_closing:
            self._close(peer, peer.farewell, kind="login")

    def _close(self, peer: Peer, reason: str, *, kind: str, at_once: bool = False) -> None:
        peer.is_closing = True
        self._effects.append(Close(peer.number, reason, at_once, kind))

    # -- effects ------------------------------------------------------------------------------

    def _take_effects(self) -> list[Effect]:
        """Wakes who waited for what grew, serves who was answered, hands over what was decided.

        Answers that are there already do not wait for it: a `FollowUp` brings the rest, before
        anybody else's turn."""
        if self._grown and self._effects:
            self._effects.append(FollowUp())
            effects, self._effects = self._effects, []
            return effects
        while self._grown or self._answered:
            grown, self._grown = self._grown, {}
            for topic_partition in grown:
                self._end_parked(self.purgatory.wake(topic_partition))
            answered, self._answered = self._answered, {}
            for number in answered:
                peer = self.peers.by_number[number]
                if peer.wire.has_news:
                    self._serve(peer)
        if self.peers.starved and self.peers.memory.has_given_back:
            self._effects.extend(map(Resume, self.peers.take_resumable()))
        effects, self._effects = self._effects, []
        return effects

    def grew(self, topic_partition: TopicPartition) -> None:
        """Requests that wait for the partition are tried again before the turn ends."""
        if topic_partition in self.purgatory.awaited:
            self._grown[topic_partition] = None

    def act(self, effects: Iterable[Effect]) -> None:
        """What an agent wants done leaves with this turn's effects."""
        self._effects.extend(effects)
