"""Requests on their way to the active controller: one at a time, in order. Grade D.

The quorum knows the controller. NOT_CONTROLLER or a lost connection means that it may have moved:
the request is sent again after a pause, wherever the controller is by then, until its limit. So a
request may be done twice; every API for the controller is made for that, as in Kafka: the second
CreateTopics gets TOPIC_ALREADY_EXISTS. A request to a controller that has been replaced does not
wait for the old one's answer.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass
from ledgerstone.metadata.not_controller import says_not_controller
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.raft.replica import Peer
from ledgerstone.server.calls import CallFailed, OnAnswer

RETRY_PAUSE_MS: Final = 100
# For one attempt; controller.socket.timeout.ms of Kafka.
_ATTEMPT_MS: Final = 30_000
# What may wait for a controller in one channel.
_MAX_WAITING_BYTES: Final = 16 << 20
_NO_CONTROLLER: Final = "no controller is known"


class AsksNodes(Protocol):
    """`Calls`."""

    def ask(
        self,
        peer: Peer,
        request: ApiMessage,
        on_answer: OnAnswer,
        *,
        timeout_ms: int,
        least_version: int = 0,
    ) -> None: ...


class Undone(NamedTuple):
    """No controller has answered. The request may have been done nevertheless."""

    code: int
    reason: str


OnEnd = Callable[[ApiMessage | Undone], None]


@dataclass(slots=True, eq=False)
class _Errand:
    request: ApiMessage
    on_end: OnEnd
    size: int
    deadline_ms: int | None
    # Why the last attempt failed.
    reason: str = _NO_CONTROLLER


class ControllerChannel:
    """`limit_ms` is how long one request is tried; None: for ever. Callbacks run once, and never
    inside `send` unless the channel is full."""

    def __init__(
        self,
        calls: AsksNodes,
        leader: Callable[[], Peer | None],
        clock: Clock,
        *,
        limit_ms: int | None,
        max_waiting_bytes: int = _MAX_WAITING_BYTES,
    ) -> None:
        self._calls = calls
        self._leader = leader
        self._clock = clock
        self._limit_ms = limit_ms
        self._max_waiting_bytes = max_waiting_bytes
        self._errands: deque[_Errand] = deque()
        self._waiting_bytes = 0
        # The first errand is with this node; answers of earlier attempts are not heard.
        self._asked: Peer | None = None
        self._attempt = 0
        self._retry_ms = 0

    def __len__(self) -> int:
        return len(self._errands)

    @property
    def waiting_for(self) -> str | None:
        """Why the oldest request is not answered yet; None if nothing waits."""
        return self._errands[0].reason if self._errands else None

    def send(self, request: ApiMessage, on_end: OnEnd, *, size: int = 0) -> None:
        """`size` is what the request costs in memory."""
        now_ms = self._clock.monotonic_ms()
        if self._errands and self._waiting_bytes + size > self._max_waiting_bytes:
            on_end(Undone(ErrorCode.REQUEST_TIMED_OUT, "too much waits for the controller"))
            return
        deadline_ms = None if self._limit_ms is None else now_ms + self._limit_ms
        self._errands.append(_Errand(request, on_end, size, deadline_ms))
        self._waiting_bytes += size
        self._go_on(now_ms)

    # -- time -----------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        if not self._errands:
            return None
        due_ms = self._retry_ms
        deadline_ms = self._errands[0].deadline_ms
        return due_ms if deadline_ms is None else min(due_ms, deadline_ms)

    def tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._expire(now_ms)
        if self._errands and now_ms >= self._retry_ms:
            self._look_for_another(now_ms)
            self._go_on(now_ms)

    def _expire(self, now_ms: int) -> None:
        """All have the same limit, so the oldest is the first to end."""
        while self._errands and (due_ms := self._errands[0].deadline_ms) is not None:
            if now_ms < due_ms:
                break
            reason = self._errands[0].reason
            self._end(Undone(ErrorCode.REQUEST_TIMED_OUT, reason))

    def _look_for_another(self, now_ms: int) -> None:
        """A controller that hangs keeps its connections: what it was asked goes to the next."""
        if self._asked is None:
            return
        if self._leader() in (None, self._asked):
            self._retry_ms = now_ms + RETRY_PAUSE_MS
        else:
            self._asked = None

    def _go_on(self, now_ms: int) -> None:
        while self._errands and self._asked is None and now_ms >= self._retry_ms:
            leader = self._leader()
            if leader is None:
                self._errands[0].reason = _NO_CONTROLLER
                self._retry_ms = now_ms + RETRY_PAUSE_MS
                return
            self._ask(leader, now_ms)

    def _ask(self, leader: Peer, now_ms: int) -> None:
        errand = self._errands[0]
        self._asked = leader
        self._attempt += 1
        attempt = self._attempt
        self._retry_ms = now_ms + RETRY_PAUSE_MS
        errand.reason = f"node {leader.id} at {leader.host}:{leader.port} has not answered"
        left_ms = _ATTEMPT_MS if errand.deadline_ms is None else errand.deadline_ms - now_ms

        def answered(answer: ApiMessage | CallFailed) -> None:
            if attempt == self._attempt and self._asked is not None:
                self._answered(answer)

        timeout_ms = max(1, min(_ATTEMPT_MS, left_ms))
        self._calls.ask(leader, errand.request, answered, timeout_ms=timeout_ms)

    # -- answers --------------------------------------------------------------------------------

    def _answered(self, answer: ApiMessage | CallFailed) -> None:
        assert self._asked is not None
        asked, self._asked = self._asked, None
        now_ms = self._clock.monotonic_ms()
        if isinstance(answer, CallFailed) and answer.is_unsupported:
            self._end(Undone(ErrorCode.UNSUPPORTED_VERSION, answer.reason))
        elif isinstance(answer, CallFailed):
            self._again(now_ms, answer.reason)
        elif says_not_controller(answer):
            self._again(now_ms, f"node {asked.id} is not the controller")
        else:
            self._retry_ms = now_ms
            self._end(answer)
        self._go_on(now_ms)

    def _again(self, now_ms: int, reason: str) -> None:
        self._errands[0].reason = reason
        self._retry_ms = now_ms + RETRY_PAUSE_MS
        self._expire(now_ms)

    def _end(self, outcome: ApiMessage | Undone) -> None:
        """The next errand is sent afterwards: this one's caller may send more, which come last."""
        errand = self._errands.popleft()
        self._waiting_bytes -= errand.size
        self._asked = None
        errand.on_end(outcome)

    def check_invariants(self) -> None:
        assert self._waiting_bytes == sum(each.size for each in self._errands)
        assert self._asked is None or self._errands
