"""One connection, seen from the broker: bytes in, requests out, answers back in order. Pure.

Kafka serves a connection strictly one request after the other. So the machine hands out the next
request only when the last one was answered or declared to have no answer, and decodes it only then;
what a client sends ahead waits as bytes, and `wants_read` turns false when it is too much.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.api import OFFERED, ApiKey, accepts
from ledgerstone.protocol.codec import decode_request, encode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.framing import FrameReader, frame_prefix
from ledgerstone.protocol.headers import (
    RequestHeader,
    decode_request_header,
    encode_response_header,
)
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ledgerstone.protocol.pieces import Piece, join_pieces, total_size
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.types import Buffer

# Only these may be as large as a frame may be; the others hold no records.
_BULK: Final = (ApiKey.PRODUCE,)


class UnknownApi(ProtocolViolation):
    """An api key or version that is not offered. Its header cannot be trusted to be answered."""


class OversizedRequest(ProtocolViolation):
    """A request without records that is larger than any honest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    max_frame_bytes: int = 104_857_600  # socket.request.max.bytes
    max_plain_bytes: int = 8 << 20  # for requests without records
    max_queued_bytes: int = 1 << 20  # sent ahead of the answer to the request in work


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. Records inside `message` are views of the frame it came in."""

    header: RequestHeader
    message: ApiMessage
    frame_bytes: int


class State(Enum):
    IDLE = "no request is in work"
    IN_WORK = "a request was handed out and waits for its answer"
    CLOSED = "the peer broke the protocol"


class ServerConnection:
    """IDLE -> IN_WORK by next_request(), back by respond() or skip_response(), CLOSED by an error.

    Invariant: `queued_bytes` is the size of all frames in the queue."""

    def __init__(self, limits: ConnectionLimits, handled: frozenset[int] | None = None) -> None:
        self.state = State.IDLE
        self.queued_bytes = 0
        self._limits = limits
        self._handled = handled  # None: every API that is offered
        self._reader = FrameReader(limits.max_frame_bytes)
        self._queue: deque[memoryview] = deque()
        self._current: RequestHeader | None = None
        self._outgoing: list[Piece] = []

    @property
    def wants_read(self) -> bool:
        is_open = self.state is not State.CLOSED and self._reader.failure is None
        return is_open and self.queued_bytes < self._limits.max_queued_bytes

    @property
    def lends(self) -> bool:
        """Whether queued frames, or requests made of them, are views of the data last received."""
        return self._reader.lends

    def limit_frames(self, max_bytes: int) -> None:
        """Changes the limit for frames to come: small before authentication, large after."""
        self._reader.max_bytes = max_bytes

    def receive_data(self, data: Buffer) -> None:
        """Takes bytes; never raises. What is wrong with them comes up in next_request()."""
        if self.state is State.CLOSED or self._reader.failure is not None:
            return
        try:
            frames = self._reader.feed(data)
        except ProtocolViolation:
            return  # the reader keeps it
        self._queue.extend(frames)
        self.queued_bytes += sum(map(len, frames))

    def own_queue(self) -> None:
        """Copies what waits, so that the data last received may be overwritten."""
        if self._queue and self.lends:
            self._queue = deque(memoryview(bytearray(frame)) for frame in self._queue)

    def next_request(self) -> Request | None:
        """The next request once the last one is done; None until then, or until bytes arrive."""
        while self.state is State.IDLE:
            if not self._queue:
                if self._reader.failure is not None:
                    self.state = State.CLOSED
                    raise self._reader.failure
                return None
            frame = self._queue.popleft()
            self.queued_bytes -= len(frame)
            try:
                request = self._open(frame)
            except ProtocolViolation:
                self.state = State.CLOSED
                raise
            if request is not None:
                self.state = State.IN_WORK
                self._current = request.header
                return request
        return None

    def _open(self, frame: memoryview) -> Request | None:
        """Decodes one frame; None if it was an ApiVersions request that is answered here."""
        header, position = decode_request_header(frame)
        api_key, version = header.api_key, header.api_version
        if not self._takes(api_key, version):
            if api_key != ApiKey.API_VERSIONS:
                raise UnknownApi(f"api key {api_key} v{version} from client {header.client_id!r}")
            self._refuse_api_versions(header)
            return None
        if len(frame) > self._limits.max_plain_bytes and api_key not in _BULK:
            raise OversizedRequest(f"{ApiKey(api_key).name} request of {len(frame)} bytes")
        message = decode_request(api_key, version, frame, position)
        return Request(header=header, message=message, frame_bytes=len(frame))

    def _takes(self, api_key: int, version: int) -> bool:
        if self._handled is not None and api_key not in self._handled:
            return False
        return accepts(api_key, version)

    def _refuse_api_versions(self, header: RequestHeader) -> None:
        """A client newer than we are: says so in the oldest layout, which it can read for sure."""
        first, last = OFFERED[ApiKey.API_VERSIONS]
        only = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=first, max_version=last)
        answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[only])
        self._send(header._replace(api_version=0), answer)

    def respond(self, message: ApiMessage) -> None:
        """Answers the request in work."""
        header = self._finish()
        if message.api_key != header.api_key:
            reason = f"api key {header.api_key} is answered with {type(message).__name__}"
            raise InvariantViolation(reason)
        self._send(header, message)

    def skip_response(self) -> None:
        """The request in work has no answer, such as Produce with acks=0."""
        self._finish()

    def _finish(self) -> RequestHeader:
        header, self._current = self._current, None
        if header is None:
            raise InvariantViolation("a response without a request in work")
        if self.state is State.IN_WORK:
            self.state = State.IDLE
        return header

    def _send(self, header: RequestHeader, message: ApiMessage) -> None:
        start = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        body = encode_response(message, header.api_version)
        prefix = frame_prefix(len(start) + total_size(body))
        self._outgoing += [prefix + start, *body]

    def data_to_send(self) -> list[Piece]:
        """What was not sent yet, in as few pieces as possible; the caller owns it from now on."""
        pieces, self._outgoing = self._outgoing, []
        return join_pieces(pieces)
