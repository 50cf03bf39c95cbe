"""How requests get from a broker to the active controller on another node. Grade D.

Requests of clients travel in an Envelope with the principal and the address of the client, so that
the controller can authorise them; the answer is unwrapped. The broker's own requests go as they
are. Heartbeats have a channel and a connection of their own: nothing may stand in front of them.
"""

import ipaddress
from collections.abc import Callable
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.not_controller import refusal
from ledgerstone.protocol.codec import decode_response, encode_request
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.headers import (
    RequestHeader,
    encode_request_header,
    peek_correlation_id,
    response_body_position,
)
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.messages.alter_partition import AlterPartitionRequest
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.protocol.messages.broker_registration import BrokerRegistrationRequest
from ledgerstone.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ledgerstone.protocol.messages.principal import DefaultPrincipalData
from ledgerstone.protocol.record_codec import encode_record_value
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.raft.replica import Peer
from ledgerstone.security.principal import Principal
from ledgerstone.server.controller_channel import AsksNodes, ControllerChannel, Undone
from ledgerstone.server.effects import Effect
from ledgerstone.server.request import Request
from ledgerstone.server.results import Result

HEARTBEATS: Final = "controller"
FORWARDING: Final = "forwarding"
_FORWARD_LIMIT_MS: Final = 60_000
_PRINCIPAL_VERSION: Final = 0

OnAnswer = Callable[[ApiMessage], None]


class Forwarding:
    """`Agent` and `controller_link.Forwarder`. `leader` is the node the quorum elected."""

    def __init__(
        self,
        *,
        clock: Clock,
        leader: Callable[[], Peer | None],
        heartbeats: AsksNodes,
        others: AsksNodes,
        heartbeat_interval_ms: int,
    ) -> None:
        self.heartbeats = ControllerChannel(
            heartbeats, leader, clock, limit_ms=heartbeat_interval_ms
        )
        self.own = ControllerChannel(others, leader, clock, limit_ms=_FORWARD_LIMIT_MS)
        # A leader waits for its change of the in-sync replicas: there is nothing else it could do.
        self.alter_partition = ControllerChannel(others, leader, clock, limit_ms=None)
        self.clients = ControllerChannel(others, leader, clock, limit_ms=_FORWARD_LIMIT_MS)
        self._all = (self.heartbeats, self.own, self.alter_partition, self.clients)

    # -- as an agent ----------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        due = [ms for each in self._all if (ms := each.next_deadline_ms) is not None]
        return min(due, default=None)

    def tick(self) -> list[Effect]:
        for each in self._all:
            each.tick()
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"no effect is asked for here: {effect} {result}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []

    # -- requests -------------------------------------------------------------------------------

    def forward(
        self,
        request: ApiMessage,
        on_answer: OnAnswer,
        *,
        by_broker: bool = False,
        client: Request | None = None,
    ) -> None:
        """`client` is whose request it is, or what made the broker ask; None: the broker's own. A
        request that no controller answers in time is answered REQUEST_TIMED_OUT."""
        if client is None or by_broker:
            self._forward_own(request, on_answer)
        else:
            self._forward_for(client, request, on_answer)

    def _forward_own(self, request: ApiMessage, on_answer: OnAnswer) -> None:
        def ended(answer: ApiMessage | Undone) -> None:
            on_answer(refusal(request, *answer) if isinstance(answer, Undone) else answer)

        self._channel_of(request).send(request, ended)

    def _channel_of(self, request: ApiMessage) -> ControllerChannel:
        match request:
            case BrokerRegistrationRequest() | BrokerHeartbeatRequest():
                return self.heartbeats
            case AlterPartitionRequest():
                return self.alter_partition
        return self.own

    def _forward_for(self, client: Request, request: ApiMessage, on_answer: OnAnswer) -> None:
        header = _header_for(client, request)
        envelope = EnvelopeRequest(
            request_data=_encoded(header, request),
            request_principal=encode_principal(client.session.principal),
            client_host_address=_address_bytes(client.session.host),
        )

        def ended(answer: ApiMessage | Undone) -> None:
            on_answer(_unwrapped(header, request, answer))

        self.clients.send(envelope, ended, size=len(envelope.request_data))

    @property
    def waiting_for(self) -> str | None:
        """Why a request has no answer yet, for those who wait for a start."""
        return next((each.waiting_for for each in self._all if each), None)


def _header_for(client: Request, request: ApiMessage) -> RequestHeader:
    """In the client's version where it is the client's request. A broker that makes a topic for a
    Metadata request writes a CreateTopics of its own."""
    is_its_own = client.api_key == request.api_key
    version = client.api_version if is_its_own else APIS[request.api_key].last_version
    return RequestHeader(request.api_key, version, client.correlation_id, client.client_id)


def _encoded(header: RequestHeader, request: ApiMessage) -> bytes:
    # No request to the controller has records, so it is one piece of bytes.
    (body,) = encode_request(request, header.api_version)
    assert isinstance(body, bytes)
    return encode_request_header(header) + body


def _unwrapped(
    header: RequestHeader, request: ApiMessage, answer: ApiMessage | Undone
) -> ApiMessage:
    if isinstance(answer, Undone):
        return refusal(request, *answer)
    assert isinstance(answer, EnvelopeResponse), answer
    if answer.error_code or answer.response_data is None:
        # Between two nodes, not the client's fault.
        reason = f"the controller did not take the envelope: error {answer.error_code}"
        return refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR, reason)
    data = answer.response_data
    try:
        if peek_correlation_id(data) != header.correlation_id:
            raise ProtocolViolation("an envelope with the answer to another request")
        position = response_body_position(header.api_key, header.api_version, data)
        return decode_response(header.api_key, header.api_version, data, position)
    except ProtocolViolation as error:
        return refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR, str(error))


def encode_principal(principal: Principal) -> bytes:
    """As Kafka's default principal builder does: the version, then the data."""
    data = DefaultPrincipalData(type=principal.kind, name=principal.name)
    return encode_record_value(data, _PRINCIPAL_VERSION)


def _address_bytes(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        # A transport without addresses.
        return ipaddress.IPv4Address(0).packed
