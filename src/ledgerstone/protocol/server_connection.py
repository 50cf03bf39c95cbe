"""One connection, seen from the broker: bytes in, requests out, answers back in order. Pure.

Kafka serves a connection strictly one request after the other. So the machine hands out the next
request only when the last one was answered or declared to have no answer, and decodes it only then;
what a client sends ahead waits as bytes, and `wants_read` turns false when it is too much, or when
the memory that all connections share does not suffice for the frame under way.
"""

import struct
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.api import ACCEPTED_FROM, OFFERED, ApiKey
from ledgerstone.protocol.codec import decode_request, encode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.frame_memory import FrameMemory
from ledgerstone.protocol.framing import FrameReader, TlsHandshake, frame_prefix
from ledgerstone.protocol.headers import (
    RequestHeader,
    decode_request_header,
    has_response_tags,
)
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ledgerstone.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ledgerstone.protocol.notation import VersionRange
from ledgerstone.protocol.pieces import JOIN_BELOW_BYTES, Piece, join_pieces, total_size
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.types import Buffer

# Only these may be as large as a frame may be; the others hold no records.
_BULK: Final = (ApiKey.PRODUCE,)
# What a request takes in the envelope of the broker that forwards it: the principal, the address,
# and what a broker that makes topics for a Metadata request says of each of them.
_ENVELOPE_BYTES: Final = 1 << 20
# How an answer begins: its size, the correlation id, and in flexible versions that there are no
# tags.
_PLAIN_START: Final = struct.Struct(">ii")
_TAGGED_START: Final = struct.Struct(">iix")
_SIZE_BYTES: Final = 4  # which the size itself does not count
_NOT_TAKEN: Final = VersionRange(1, 0)
# Requests in a row that are answered here, before others have their turn.
_REFUSED_AT_ONCE: Final = 64
# What a frame that waits takes beside its bytes: it may have none, and a million of those is a
# quarter of a gigabyte.
WAITING_FRAME_BYTES: Final = 256
# A TLS record with an alert: fatal, handshake_failure. Without it a client takes the end of the
# connection for a network that fails, and tries again for a minute.
_TLS_ALERT: Final = bytes.fromhex("15 0303 0002 02 28")

# Reads a request of an API faster than its codec, from version, frame and where the body begins;
# None leaves it to the codec.
Shortcut = Callable[[int, memoryview, int], ApiMessage | None]
_NO_SHORTCUTS: Final[Mapping[int, Shortcut]] = {}


# Of a token without a header. Its version is none that the wire has.
_TOKEN_HEADER: Final = RequestHeader(ApiKey.SASL_AUTHENTICATE, -1, 0, None)


class UnknownApi(ProtocolViolation):
    """An api key or version that is not offered. Its header cannot be trusted to be answered."""


class OversizedRequest(ProtocolViolation):
    """A request without records that is larger than any honest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    max_frame_bytes: int = 104_857_600  # socket.request.max.bytes
    max_plain_bytes: int = 8 << 20  # for requests without records
    # Sent ahead of the answer to the request in work, with what each frame takes beside its bytes.
    max_queued_bytes: int = 1 << 20


class ReceivedRequest(NamedTuple):
    """One request. Records inside `message` are views of the frame it came in."""

    header: RequestHeader
    message: ApiMessage
    frame_bytes: int


class ServerState(Enum):
    IDLE = "no request is in work"
    IN_WORK = "a request was handed out and waits for its answer"
    CLOSED = "the peer broke the protocol"


# Bound once: asking an enum for a member costs as much as a function call.
_IDLE: Final = ServerState.IDLE
_IN_WORK: Final = ServerState.IN_WORK
_CLOSED: Final = ServerState.CLOSED


@cache
def _taken_versions(handled: frozenset[int] | None) -> Mapping[int, VersionRange]:
    """Which versions may be decoded, by the key of every API that has a handler."""
    return {
        key: VersionRange(max(offered.first, ACCEPTED_FROM.get(key, 0)), offered.last)
        for key, offered in OFFERED.items()
        if handled is None or key in handled
    }


@cache
def _start_of(api_key: int, api_version: int) -> struct.Struct:
    return _TAGGED_START if has_response_tags(api_key, api_version) else _PLAIN_START


class ServerConnection:
    """IDLE -> IN_WORK by next_request(), back by respond() or skip_response(), CLOSED by an error.

    A frame that was collected, or copied because it had to wait, has a buffer of its own, which
    goes back to the memory it came from when its request is answered. Whoever answers must have
    let go of the request by then; a buffer somebody still looks at is not used again.

    Invariant: `queued_bytes` is the size of all frames in the queue, and `WAITING_FRAME_BYTES` for
    each of them. The first `_kept` of them are counted like that in the memory, too."""

    __slots__ = (
        "_buffer_in_work",
        "_current",
        "_kept",
        "_limits",
        "_memory",
        "_outgoing",
        "_queue",
        "_shortcuts",
        "_taken",
        "queued_bytes",
        "reader",
        "state",
        "takes_tokens",
    )

    def __init__(
        self,
        limits: ConnectionLimits,
        handled: frozenset[int] | None = None,
        *,
        memory: FrameMemory | None = None,
        number: int = 0,
        shortcuts: Mapping[int, Shortcut] = _NO_SHORTCUTS,
    ) -> None:
        """`handled` are the keys that have a handler; None: every API that is offered."""
        self.state = ServerState.IDLE
        self.queued_bytes = 0
        self._limits = limits
        self._taken = _taken_versions(handled)
        self._shortcuts = shortcuts
        self._memory = FrameMemory() if memory is None else memory
        self.reader = FrameReader(limits.max_frame_bytes, self._memory, owner=number)
        # Frames, each with its buffer; None where it is a view of the data last received.
        self._queue: deque[tuple[memoryview, bytearray | None]] = deque()
        self._kept = 0
        self._buffer_in_work: bytearray | None = None
        self._current: RequestHeader | None = None
        self._outgoing: list[Piece] = []
        # After SaslHandshake v0: frames are tokens of the mechanism, without a header.
        self.takes_tokens = False

    @property
    def wants_read(self) -> bool:
        reader = self.reader
        if self.state is _CLOSED or reader.failure is not None or reader.is_starved:
            return False
        return self.queued_bytes < self._limits.max_queued_bytes

    def limit_frames(self, max_bytes: int) -> None:
        """Changes the limit for frames to come: small before authentication, large after."""
        self.reader.max_bytes = max_bytes

    @property
    def has_news(self) -> bool:
        """There may be something for next_request() to say."""
        return bool(self._queue) or self.reader.failure is not None

    def receive_data(self, data: Buffer) -> None:
        """Takes bytes; never raises. What is wrong with them comes up in next_request()."""
        if self.state is _CLOSED or self.reader.failure is not None:
            return
        try:
            frames = self.reader.feed(data)
        except ProtocolViolation:
            return  # the reader keeps it
        lender = data.obj if type(data) is memoryview else data
        for frame in frames:
            buffer = frame.obj
            owned = buffer if type(buffer) is bytearray and buffer is not lender else None
            self._queue.append((frame, owned))
            self.queued_bytes += len(frame) + WAITING_FRAME_BYTES

    def filled(self, count: int) -> None:
        """As `receive_data`, where the bytes were put into the reader's room."""
        for frame in self.reader.fill(count):
            buffer = frame.obj
            assert isinstance(buffer, bytearray)
            self._queue.append((frame, buffer))
            self.queued_bytes += len(frame) + WAITING_FRAME_BYTES

    def own_queue(self) -> None:
        """Copies what waits, so that the data last received may be overwritten."""
        self._memory.reserve((len(self._queue) - self._kept) * WAITING_FRAME_BYTES)
        self._kept = len(self._queue)
        if self._queue and self.reader.lends:
            self._queue = deque(map(self._owned, self._queue))

    def _owned(
        self, entry: tuple[memoryview, bytearray | None]
    ) -> tuple[memoryview, bytearray | None]:
        frame, buffer = entry
        if buffer is not None:
            return entry
        buffer = bytearray(frame)
        self._memory.reserve(len(buffer))
        return memoryview(buffer), buffer

    def abandon(self) -> None:
        """The connection is gone: its memory is for others."""
        self.reader.abandon()
        for _, buffer in self._queue:
            if buffer is not None:
                self._memory.release(len(buffer))
        self._queue.clear()
        self._memory.release(self._kept * WAITING_FRAME_BYTES)
        self._kept = 0
        self._let_go()

    def let_go_of_frame(self) -> None:
        """The request in work has to wait for others, and nothing of it looks at its frame: the
        memory is for others meanwhile."""
        self._let_go()

    def _let_go(self) -> None:
        buffer, self._buffer_in_work = self._buffer_in_work, None
        if buffer is not None:
            self._memory.take_back(buffer)

    def next_request(self) -> ReceivedRequest | None:
        """The next request once the last one is done; None until then, or until bytes arrive. None
        also where many were answered here; then there is still news."""
        for _ in range(_REFUSED_AT_ONCE):
            if self.state is not _IDLE:
                return None
            if not self._queue:
                if self.reader.failure is not None:
                    self.state = _CLOSED
                    if isinstance(self.reader.failure, TlsHandshake):
                        self._outgoing.append(_TLS_ALERT)
                    raise self.reader.failure
                return None
            frame, self._buffer_in_work = self._queue.popleft()
            self.queued_bytes -= len(frame) + WAITING_FRAME_BYTES
            if self._kept:
                self._kept -= 1
                self._memory.release(WAITING_FRAME_BYTES)
            try:
                request = self._open(frame)
            except ProtocolViolation:
                self.state = _CLOSED
                raise
            if request is not None:
                self.state = _IN_WORK
                self._current = request.header
                return request
            self._let_go()
        return None

    def _open(self, frame: memoryview) -> ReceivedRequest | None:
        """Decodes one frame; None if it was an ApiVersions request that is answered here."""
        if self.takes_tokens:
            return ReceivedRequest(_TOKEN_HEADER, SaslAuthenticateRequest(bytes(frame)), len(frame))
        header, position = decode_request_header(frame)
        api_key, version = header.api_key, header.api_version
        first, last = self._taken.get(api_key, _NOT_TAKEN)
        if not first <= version <= last:
            if api_key != ApiKey.API_VERSIONS:
                raise UnknownApi(f"api key {api_key} v{version} from client {header.client_id!r}")
            self._refuse_api_versions(header)
            return None
        if len(frame) > self._limits.max_plain_bytes and not self._may_be_large(api_key, frame):
            raise OversizedRequest(f"{ApiKey(api_key).name} request of {len(frame)} bytes")
        shortcut = self._shortcuts.get(api_key)
        message = None if shortcut is None else shortcut(version, frame, position)
        if message is None:
            message = decode_request(api_key, version, frame, position)
        return ReceivedRequest(header, message, len(frame))

    def _may_be_large(self, api_key: int, frame: memoryview) -> bool:
        """An envelope holds whatever a client may send. To close the connection over one would have
        the broker try again, for a minute, with all the others waiting behind it."""
        if api_key == ApiKey.ENVELOPE:
            return len(frame) <= self._limits.max_plain_bytes + _ENVELOPE_BYTES
        return api_key in _BULK

    def _refuse_api_versions(self, header: RequestHeader) -> None:
        """A client newer than we are: says so in the oldest layout, which it can read for sure."""
        first, last = OFFERED[ApiKey.API_VERSIONS]
        only = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=first, max_version=last)
        answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[only])
        self._send(header._replace(api_version=0), answer)

    def respond(self, message: ApiMessage | bytes | list[Piece], size: int | None = None) -> int:
        """Answers the request in work, with a message or the encoded body of one; says how many
        bytes that takes. `size`: of the body, where it is known."""
        header = self._finish()
        if type(message) is bytes:
            return self._send_body(header, message)
        if type(message) is list:
            return self._send_pieces(header, message, total_size(message) if size is None else size)
        assert isinstance(message, ApiMessage)
        if message.api_key != header.api_key:
            reason = f"api key {header.api_key} is answered with {type(message).__name__}"
            raise InvariantViolation(reason)
        if header is _TOKEN_HEADER:
            assert isinstance(message, SaslAuthenticateResponse)
            token = bytes(message.auth_bytes)
            self._outgoing.append(frame_prefix(len(token)) + token)
            return len(token)
        return self._send(header, message)

    def skip_response(self) -> None:
        """The request in work has no answer, such as Produce with acks=0."""
        self._finish()

    def _finish(self) -> RequestHeader:
        header, self._current = self._current, None
        if header is None:
            raise InvariantViolation("a response without a request in work")
        if self._buffer_in_work is not None:
            self._let_go()
        if self.state is _IN_WORK:
            self.state = _IDLE
        return header

    def _send(self, header: RequestHeader, message: ApiMessage) -> int:
        body = encode_response(message, header.api_version)
        if len(body) == 1 and type(only := body[0]) is bytes and len(only) < JOIN_BELOW_BYTES:
            return self._send_body(header, only)
        return self._send_pieces(header, body, total_size(body))

    def _send_pieces(self, header: RequestHeader, body: list[Piece], body_bytes: int) -> int:
        start = _start_of(header.api_key, header.api_version)
        size = start.size - _SIZE_BYTES + body_bytes
        self._outgoing += [start.pack(size, header.correlation_id), *body]
        return size

    def _send_body(self, header: RequestHeader, body: bytes) -> int:
        start = _start_of(header.api_key, header.api_version)
        size = start.size - _SIZE_BYTES + len(body)
        self._outgoing.append(start.pack(size, header.correlation_id) + body)
        return size

    def data_to_send(self) -> list[Piece]:
        """What was not sent yet, in as few pieces as possible; the caller owns it from now on."""
        pieces, self._outgoing = self._outgoing, []
        return join_pieces(pieces) if len(pieces) > 1 else pieces
