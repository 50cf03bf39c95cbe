"""Requests to other nodes: connections are opened, kept and given up here. Grade D.

One object for each purpose, an agent that dials (`server.agent`). A connection is negotiated once;
then every request goes out in the newest version that both sides know. The callback of `ask` runs
exactly once, in a later call of this agent, never inside `ask` itself.

A request that gets no answer in time costs its connection, as in Kafka: answers come in order, so
whatever is behind it would wait as well. A node that cannot be reached is dialled again after a
back-off; requests that come meanwhile wait for that attempt or for their own deadlines.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from ledgerstone import __version__
from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import UnsupportedVersion
from ledgerstone.metadata.delta import Delta
from ledgerstone.protocol.client_connection import (
    ClientConnection,
    ClientState,
    Response,
)
from ledgerstone.protocol.client_login import renewal_ms
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.raft.replica import Peer
from ledgerstone.security.accounts import MakeLogin
from ledgerstone.server.effects import ConnectionId, Dial, Effect, Hangup, Send
from ledgerstone.server.results import DialFailed, Dialled, Result

# The largest answer: a batch of metadata has up to 8 MiB, and a Fetch may carry one beyond its
# limit.
MAX_ANSWER_BYTES: Final = 32 << 20
# As in Kafka's channel between controllers.
_FIRST_BACKOFF_MS: Final = 50
_MAX_BACKOFF_MS: Final = 500


class CallFailed(NamedTuple):
    """No answer will come. `is_unsupported`: the node does not know the request."""

    reason: str
    is_unsupported: bool = False


# An answer may hold views of received bytes: copy records that outlive the call.
OnAnswer = Callable[[ApiMessage | CallFailed], None]


class CallingTurn(Protocol):
    def act(self, effects: Iterable[Effect]) -> None: ...


class _Address(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    request: ApiMessage
    on_answer: OnAnswer
    least_version: int
    deadline_ms: int


@dataclass(slots=True, eq=False)
class _Line:
    """One node. Nothing, a dial or a connection; `waiting` is not sent yet, `sent` is."""

    peer: Peer
    dial: Dial | None = None
    connection: ConnectionId | None = None
    wire: ClientConnection | None = None
    waiting: deque[_Call] = field(default_factory=deque)
    sent: deque[_Call] = field(default_factory=deque)
    log_in_again_ms: int | None = None
    # A connection that is not ready by then is given up: the node may be gone without a word.
    ready_by_ms: int = 0
    timeout_ms: int = 0  # of the newest call
    backoff_ms: int = 0
    may_dial_ms: int = 0

    @property
    def is_ready(self) -> bool:
        return self.wire is not None and self.wire.state is ClientState.READY

    @property
    def calls(self) -> Iterable[_Call]:
        yield from self.sent
        yield from self.waiting


class Calls:
    """`turn` takes effects of `ask`. Before there is one, the next tick returns them."""

    def __init__(
        self,
        purpose: str,
        clock: Clock,
        *,
        client_id: str,
        listener: str = "",
        turn: CallingTurn | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        """`listener`: the name of those that are dialled."""
        self.purpose = purpose
        self.listener = listener
        self.turn = turn
        # Set before the first call, where the other side asks for a login.
        self.make_login: MakeLogin | None = None
        self._clock = clock
        self._client_id = client_id
        self._max_answer_bytes = max_answer_bytes
        self._lines: dict[_Address, _Line] = {}
        self._by_connection: dict[ConnectionId, _Line] = {}
        self._effects: list[Effect] = []
        self._due_ms: int | None = None
        # Ended without an answer; their callbacks run before this call of the agent returns.
        self._failed: deque[tuple[_Call, CallFailed]] = deque()

    def ask(
        self,
        peer: Peer,
        request: ApiMessage,
        on_answer: OnAnswer,
        *,
        timeout_ms: int,
        least_version: int = 0,
    ) -> None:
        """Requests to one node leave in order. A node is known by host and port."""
        address = _Address(peer.host, peer.port)
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = _Line(peer)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        line.timeout_ms = timeout_ms
        line.waiting.append(_Call(request, on_answer, least_version, deadline_ms))
        self._due_by(deadline_ms)
        self._go_on(line)
        if self.turn is not None:
            self.turn.act(self._take_effects())

    @property
    def in_flight(self) -> int:
        """Calls without an answer."""
        return sum(len(each.waiting) + len(each.sent) for each in self._lines.values())

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        """Kept as a lower bound, as it is asked for after many a request; `tick` sets it right."""
        return 0 if self._failed or self._effects else self._due_ms

    def tick(self) -> list[Effect]:
        now_ms = self._clock.monotonic_ms()
        if self._due_ms is not None and now_ms >= self._due_ms:
            self._due_ms = None
            for line in list(self._lines.values()):
                self._expire(line, now_ms)
                self._go_on(line)
                for call in line.calls:
                    self._due_by(call.deadline_ms)
                if line.connection is not None and not line.is_ready:
                    self._due_by(line.ready_by_ms)
        return self._end_turn()

    def _due_by(self, due_ms: int) -> None:
        if self._due_ms is None or due_ms < self._due_ms:
            self._due_ms = due_ms

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        assert isinstance(effect, Dial)
        line = self._lines[_Address(effect.host, effect.port)]
        line.dial = None
        if isinstance(result, Dialled):
            line.connection, line.log_in_again_ms = result.connection, None
            line.wire = ClientConnection(
                self._client_id,
                __version__,
                max_bytes=self._max_answer_bytes,
                make_login=self.make_login,
            )
            self._by_connection[result.connection] = line
            self._expect_ready(line)
            self._send(line)
        else:
            assert isinstance(result, DialFailed)
            self._give_up(line, result.reason)
        return self._end_turn()

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []

    def room(self, connection: ConnectionId) -> memoryview | None:
        line = self._by_connection.get(connection)
        return None if line is None or line.wire is None else line.wire.room()

    def filled(self, connection: ConnectionId, count: int) -> list[Effect]:
        return self._hear(connection, lambda wire: wire.received(count))

    def received(self, connection: ConnectionId, data: memoryview) -> list[Effect]:
        return self._hear(connection, lambda wire: wire.receive_data(data))

    def _hear(
        self, connection: ConnectionId, read: Callable[[ClientConnection], list[Response]]
    ) -> list[Effect]:
        line = self._by_connection.get(connection)
        if line is None:
            return self._end_turn()
        assert line.wire is not None
        try:
            responses = read(line.wire)
        except ProtocolViolation as error:
            self._hang_up(line)
            self._give_up(line, f"{line.peer.host}:{line.peer.port} broke the protocol: {error}")
            return self._end_turn()
        if line.is_ready:
            line.backoff_ms = 0
            self._note_login(line)
        for response in responses:
            # Taken out first: a callback that raises still was the only one.
            line.sent.popleft().on_answer(response.message)
        if line.connection == connection:
            self._go_on(line)
        return self._end_turn()

    def lost(self, connection: ConnectionId, reason: str) -> list[Effect]:
        line = self._by_connection.pop(connection, None)
        if line is not None:
            was_ready = line.is_ready
            line.connection, line.wire = None, None
            self._give_up(line, reason, backs_off=not was_ready)
        return self._end_turn()

    # -- one line -----------------------------------------------------------------------------

    def _go_on(self, line: _Line) -> None:
        """Sends what can be sent, or dials if nothing else stands in the way."""
        if not line.waiting:
            return
        if line.connection is not None:
            self._send(line)
        elif line.dial is None:
            now_ms, peer = self._clock.monotonic_ms(), line.peer
            if now_ms < line.may_dial_ms:
                self._due_by(line.may_dial_ms)
                return
            timeout_ms = max(line.waiting[-1].deadline_ms - now_ms, 1)
            line.dial = Dial(peer.id, peer.host, peer.port, self.purpose, timeout_ms, self.listener)
            self._effects.append(line.dial)

    def _note_login(self, line: _Line) -> None:
        assert line.wire is not None
        lifetime_ms = line.wire.lifetime_ms
        if lifetime_ms is not None and line.log_in_again_ms is None:
            line.log_in_again_ms = self._clock.monotonic_ms() + renewal_ms(lifetime_ms)

    def _may_log_in_again(self, line: _Line, wire: ClientConnection) -> None:
        """Between two requests: nothing is in flight, and the next one waits for it."""
        due_ms = line.log_in_again_ms
        if due_ms is None or self._clock.monotonic_ms() < due_ms:
            return
        if wire.state is ClientState.READY and not wire.in_flight:
            line.log_in_again_ms = None
            wire.log_in_again()
            self._expect_ready(line)

    def _expect_ready(self, line: _Line) -> None:
        line.ready_by_ms = self._clock.monotonic_ms() + line.timeout_ms
        self._due_by(line.ready_by_ms)

    def _send(self, line: _Line) -> None:
        """Negotiation goes first; requests follow once the node has said what it knows."""
        wire, connection = line.wire, line.connection
        assert wire is not None
        assert connection is not None
        self._may_log_in_again(line, wire)
        while line.waiting and line.is_ready:
            call = line.waiting.popleft()
            if (refusal := _send(wire, call)) is None:
                line.sent.append(call)
            else:
                self._failed.append((call, CallFailed(refusal, is_unsupported=True)))
        if pieces := wire.data_to_send():
            self._effects.append(Send(connection, pieces))

    def _expire(self, line: _Line, now_ms: int) -> None:
        late = next((each for each in line.sent if each.deadline_ms <= now_ms), None)
        if late is not None:
            self._hang_up(line)
            self._give_up(line, "an answer did not come in time", only_sent=True)
        waiting = line.waiting
        line.waiting = deque(each for each in waiting if each.deadline_ms > now_ms)
        # A node that takes the connection and then says nothing is given up as well, also where
        # there is always another request before the last one expires.
        is_silent = line.connection is not None and not line.is_ready
        if is_silent and (now_ms >= line.ready_by_ms or (waiting and not line.waiting)):
            self._hang_up(line)
            self._back_off(line)
        if len(line.waiting) < len(waiting):
            reason = f"{line.peer.host}:{line.peer.port} could not be reached in time"
            for each in waiting:
                if each.deadline_ms <= now_ms:
                    self._failed.append((each, CallFailed(reason)))

    def _hang_up(self, line: _Line) -> None:
        assert line.connection is not None
        del self._by_connection[line.connection]
        self._effects.append(Hangup(line.connection))
        line.connection, line.wire = None, None

    def _give_up(
        self, line: _Line, reason: str, *, only_sent: bool = False, backs_off: bool = True
    ) -> None:
        """Everything under way fails; a connection that never worked is not tried at once."""
        failed = CallFailed(reason)
        self._failed.extend((call, failed) for call in line.sent)
        line.sent.clear()
        if not only_sent:
            self._failed.extend((call, failed) for call in line.waiting)
            line.waiting.clear()
        if backs_off:
            self._back_off(line)

    def _back_off(self, line: _Line) -> None:
        line.backoff_ms = min(max(line.backoff_ms * 2, _FIRST_BACKOFF_MS), _MAX_BACKOFF_MS)
        line.may_dial_ms = self._clock.monotonic_ms() + line.backoff_ms

    def _end_turn(self) -> list[Effect]:
        """Callbacks may ask again."""
        while self._failed:
            call, failed = self._failed.popleft()
            call.on_answer(failed)
        return self._take_effects()

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


def _send(wire: ClientConnection, call: _Call) -> str | None:
    """Why the request cannot be sent."""
    request = call.request
    try:
        version = wire.best_version(request.api_key)
        if version < call.least_version:
            return f"{request.name}: version {call.least_version} is needed, both know {version}"
        wire.send(request)
    except UnsupportedVersion as error:
        return str(error)
    return None
