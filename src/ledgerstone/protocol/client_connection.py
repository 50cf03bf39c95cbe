"""One connection, seen from a client: requests in, bytes out, responses matched. Pure.

A broker answers in order, so requests in flight are a queue: a response that does not match the
oldest one means a broken stream. Versions are negotiated first, with the newest ApiVersions we
know. A broker that does not know it lists its versions in the oldest layout.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import InvariantViolation, UnsupportedVersion
from ledgerstone.protocol.client_login import ClientLogin, LoginFailed
from ledgerstone.protocol.codec import decode_response, encode_request
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.frame_memory import FrameMemory
from ledgerstone.protocol.framing import FrameReader, frame_prefix
from ledgerstone.protocol.headers import (
    RequestHeader,
    encode_request_header,
    peek_correlation_id,
    response_body_position,
)
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages import APIS, ApiKey
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ledgerstone.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ledgerstone.protocol.notation import VersionRange
from ledgerstone.protocol.pieces import Piece, join_pieces, total_size
from ledgerstone.protocol.wire import MalformedMessage, ProtocolViolation
from ledgerstone.types import INT32_MAX, Buffer

MAX_RESPONSE_BYTES: Final = INT32_MAX
SOFTWARE_NAME: Final = "ledgerstone"


class UnexpectedResponse(ProtocolViolation):
    """A response that matches no request, or not the oldest one."""


class NegotiationFailed(ProtocolViolation):
    """The broker refused every version of ApiVersions we know."""


class _InFlight(NamedTuple):
    correlation_id: int
    api_key: int
    api_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    correlation_id: int
    api_version: int
    message: ApiMessage


class ClientState(Enum):
    NEGOTIATING = "the broker's versions are not known yet"
    LOGGING_IN = "a login is under way"
    READY = "requests may be sent"
    CLOSED = "the broker broke the protocol"


class ClientConnection:
    """NEGOTIATING -> READY by the broker's ApiVersions response, with a login in between where one
    is given; CLOSED by an error.

    `lifetime_ms` is how long the login counts, None while there is none to count. Whoever has a
    clock calls `log_in_again` before it is over."""

    def __init__(
        self,
        client_id: str | None,
        software_version: str,
        *,
        max_bytes: int = MAX_RESPONSE_BYTES,
        make_login: Callable[[], ClientLogin] | None = None,
    ) -> None:
        self.state = ClientState.NEGOTIATING
        self.lifetime_ms: int | None = None
        self._make_login = make_login
        self._login: ClientLogin | None = None
        self.broker_versions: dict[int, VersionRange] = {}
        self.api_versions: ApiVersionsResponse | None = None  # with the broker's features
        self._client_id = client_id
        self._software_version = software_version
        self._reader = FrameReader(max_bytes, FrameMemory(believes=True))
        self._in_flight: deque[_InFlight] = deque()
        self._next_correlation_id = 0
        self._outgoing: list[Piece] = []
        self._ask_versions(APIS[ApiKey.API_VERSIONS].last_version)

    @property
    def is_ready(self) -> bool:
        return self.state is ClientState.READY

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def lends(self) -> bool:
        """Whether the last responses may hold views of the data last received."""
        return self._reader.lends

    def best_version(self, api_key: int, *, at_most: int | None = None) -> int:
        """The newest version that both sides know."""
        ours, theirs = APIS[api_key], self.broker_versions.get(api_key)
        if theirs is None:
            raise UnsupportedVersion(f"the broker does not offer {ours.name}")
        last = min(
            ours.last_version, theirs.last, ours.last_version if at_most is None else at_most
        )
        if last < max(ours.first_version, theirs.first):
            known = f"v{ours.first_version}-{ours.last_version}"
            offered = f"v{theirs.first}-{theirs.last}"
            raise UnsupportedVersion(f"{ours.name}: we know {known}, the broker offers {offered}")
        return last

    def send(
        self, message: ApiMessage, *, at_most: int | None = None, expects_response: bool = True
    ) -> int:
        """Queues a request in the best version; returns its correlation id."""
        if self.state is not ClientState.READY:
            raise InvariantViolation(f"{type(message).__name__} sent while {self.state.value}")
        version = self.best_version(message.api_key, at_most=at_most)
        return self._send(message, version, expects_response=expects_response)

    def _send(self, message: ApiMessage, version: int, *, expects_response: bool = True) -> int:
        correlation_id = self._next_correlation_id
        header = RequestHeader(message.api_key, version, correlation_id, self._client_id)
        start = encode_request_header(header)
        body = encode_request(message, version)
        self._outgoing += [frame_prefix(len(start) + total_size(body)) + start, *body]
        self._next_correlation_id = (correlation_id + 1) & INT32_MAX
        if expects_response:
            self._in_flight.append(_InFlight(correlation_id, message.api_key, version))
        return correlation_id

    def data_to_send(self) -> list[Piece]:
        """Unsent bytes, in as few pieces as possible; the caller now owns them."""
        pieces, self._outgoing = self._outgoing, []
        return join_pieces(pieces)

    def receive_data(self, data: Buffer) -> list[Response]:
        """The responses that are complete now. A ProtocolViolation closes the connection."""
        return self._take(lambda: self._reader.feed(data))

    def room(self) -> memoryview | None:
        """Where to put the rest of a large response, if one is arriving. Release the view, then
        call `received`."""
        return self._reader.room() if self._reader.is_worth_room else None

    def received(self, count: int) -> list[Response]:
        """As `receive_data`, for bytes put into `room`."""
        return self._take(lambda: self._reader.fill(count))

    def _take(self, frames: Callable[[], list[memoryview]]) -> list[Response]:
        if self.state is ClientState.CLOSED:
            raise InvariantViolation("data for a closed connection")
        try:
            responses = [self._match(frame) for frame in frames()]
        except ProtocolViolation:
            self.state = ClientState.CLOSED
            raise
        return [each for each in responses if each is not None]

    def _match(self, frame: memoryview) -> Response | None:
        """One response; None if it belongs to the negotiation or the login."""
        correlation_id = peek_correlation_id(frame)
        if not self._in_flight or self._in_flight[0].correlation_id != correlation_id:
            oldest = self._in_flight[0].correlation_id if self._in_flight else None
            raise UnexpectedResponse(f"correlation id {correlation_id}, oldest in flight: {oldest}")
        request = self._in_flight.popleft()
        if self.state is ClientState.NEGOTIATING:
            self._negotiate(request, frame)
            return None
        position = response_body_position(request.api_key, request.api_version, frame)
        message = decode_response(request.api_key, request.api_version, frame, position)
        if self.state is ClientState.LOGGING_IN:
            self._hear_login(message)
            return None
        return Response(
            correlation_id=correlation_id, api_version=request.api_version, message=message
        )

    def _ask_versions(self, version: int) -> None:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=self._software_version
        )
        self._send(request, version)

    def _negotiate(self, request: _InFlight, frame: memoryview) -> None:
        answer = self._versions_answer(request.api_version, frame)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            self._ask_versions(self._older_version(request.api_version, answer))
            return
        if answer.error_code != ErrorCode.NONE:
            raise NegotiationFailed(f"ApiVersions failed with error code {answer.error_code}")
        self.api_versions = answer
        self.broker_versions = {
            each.api_key: VersionRange(each.min_version, each.max_version)
            for each in answer.api_keys
        }
        if self._make_login is None:
            self.state = ClientState.READY
        else:
            self._begin_login(self._make_login())

    # -- the login ----------------------------------------------------------------------------

    def log_in_again(self) -> None:
        """KIP-368. Only while nothing is in flight, and where there is a lifetime."""
        if self._make_login is None or self._in_flight or self.state is not ClientState.READY:
            raise InvariantViolation(f"a login again while {self.state.value}")
        self._begin_login(self._make_login())

    def _begin_login(self, login: ClientLogin) -> None:
        self._login = login
        self.state = ClientState.LOGGING_IN
        try:
            version = self.best_version(ApiKey.SASL_HANDSHAKE)
            self.best_version(ApiKey.SASL_AUTHENTICATE)
        except UnsupportedVersion as error:
            raise LoginFailed(ErrorCode.UNSUPPORTED_VERSION, str(error)) from None
        self._send(SaslHandshakeRequest(login.mechanism), version)

    def _hear_login(self, answer: ApiMessage) -> None:
        login = self._login
        assert login is not None
        said: bytes | None
        if isinstance(answer, SaslHandshakeResponse):
            _check_handshake(answer, login.mechanism)
            said = login.begin()
        else:
            assert isinstance(answer, SaslAuthenticateResponse)
            if answer.error_code:
                raise LoginFailed(answer.error_code, answer.error_message or "the login failed")
            said = login.respond(bytes(answer.auth_bytes))
            self.lifetime_ms = answer.session_lifetime_ms or None
        if said is None:
            self._login, self.state = None, ClientState.READY
        else:
            version = self.best_version(ApiKey.SASL_AUTHENTICATE)
            self._send(SaslAuthenticateRequest(said), version)

    def _versions_answer(self, version: int, frame: memoryview) -> ApiVersionsResponse:
        position = response_body_position(ApiKey.API_VERSIONS, version, frame)
        if len(frame) < position + 2:
            name = ApiVersionsResponse.__name__
            raise MalformedMessage(name, version, "error_code", position, "not there")
        # Every layout begins with the error code, and this one error comes in the oldest layout.
        error_code = int.from_bytes(frame[position : position + 2], "big", signed=True)
        layout = 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version
        answer = decode_response(ApiKey.API_VERSIONS, layout, frame, position)
        if not isinstance(answer, ApiVersionsResponse):
            raise InvariantViolation(f"api key 18 decodes to {type(answer).__name__}")
        return answer

    def _older_version(self, refused: int, answer: ApiVersionsResponse) -> int:
        if refused == 0:
            raise NegotiationFailed("the broker refuses ApiVersions v0")
        offered = [e.max_version for e in answer.api_keys if e.api_key == ApiKey.API_VERSIONS]
        # Brokers before KIP-511 list nothing: use v0. Also if it lists what it just refused.
        return offered[0] if offered and 0 <= offered[0] < refused else 0


def _check_handshake(answer: SaslHandshakeResponse, mechanism: str) -> None:
    code = answer.error_code
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        raise LoginFailed(code, "the listener asks for no login")
    if code:
        offered = ", ".join(answer.mechanisms) or "none"
        raise LoginFailed(code, f"the broker does not offer {mechanism}, it offers {offered}")
