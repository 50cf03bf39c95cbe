"""A request as handlers see it, and the ways a handler may answer. Pure."""

import enum
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server.session import Session
from ledgerstone.types import TopicPartition


@dataclass(slots=True, eq=False)
class Request:
    """One decoded request. Identity is what tells two of them apart: it is its own token.

    Nobody changes it but for `is_charged`; to freeze it would cost more than all the rest of making
    it."""

    connection: int
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    session: Session
    received_ms: int
    size: int = 0  # of its frame
    # Nothing of it counts for a quota any more, or nothing ever did.
    is_charged: bool = False

    @property
    def client_host(self) -> str:
        return self.session.host


class Encoded(NamedTuple):
    """The body of a response that was charged already, and its size."""

    pieces: list[Piece]
    size: int


@dataclass(slots=True, eq=False, kw_only=True)
class InnerRequest(Request):
    """A request made of another one; `outer` is what its connection waits for, or was made of a
    third one in turn."""

    outer: Request

    def wrapped(self, response: ApiMessage) -> ApiMessage:
        """The answer to the outer request, made of the answer to this one."""
        raise NotImplementedError


def outermost(request: Request) -> Request:
    while isinstance(request, InnerRequest):
        request = request.outer
    return request


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """Not now: `attempt` is tried when one of `keys` grows, and a last time at the deadline.

    `woken` is asked first with the partition that grew; without it, every growth counts."""

    attempt: "Callable[[bool], ApiMessage | Encoded | Farewell | None]"
    deadline_ms: int
    keys: Iterable[TopicPartition] = field(default=())
    woken: Callable[[TopicPartition], bool] | None = None

    def with_answer(self, wrapped: Callable[[ApiMessage], ApiMessage]) -> "Parked":
        """The same, with something done to the answer."""
        attempt = self.attempt

        def attempt_and_wrap(time_is_up: bool) -> ApiMessage | Farewell | None:
            answer = attempt(time_is_up)
            assert not isinstance(answer, Encoded), "encoded before it was whole"
            return wrapped(answer) if isinstance(answer, ApiMessage) else answer

        return replace(self, attempt=attempt_and_wrap)


class Later(enum.Enum):
    """Another machine holds the request and answers in its own time, through `Broker.answer`."""

    ANSWERED_LATER = "the request is its own token"


ANSWERED_LATER: Final = Later.ANSWERED_LATER


@dataclass(frozen=True, slots=True)
class Farewell:
    """The last answer of a connection, which is closed after it. None: it gets none. Only an
    attempt returns it."""

    message: ApiMessage | None
    reason: str


class Disconnect(Exception):
    """The protocol has no way to say no here: the connection is closed."""


# Bytes are the body of a response, encoded already.
Response = ApiMessage | bytes | Encoded
# None: the request is finished and nothing is sent.
Answer = Response | Parked | Later | None
