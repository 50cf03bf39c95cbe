"""Requests to a controller on another node, which moves, hangs or does not know them."""

from dataclasses import dataclass, field

import pytest

from ledgerstone.protocol.codec import decode_request, encode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.headers import decode_request_header, encode_response_header
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from ledgerstone.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from ledgerstone.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.protocol.messages.principal import DefaultPrincipalData
from ledgerstone.protocol.record_codec import decode_record_value
from ledgerstone.raft.replica import Peer
from ledgerstone.security.principal import Principal
from ledgerstone.server.calls import CallFailed, OnAnswer
from ledgerstone.server.forwarding import Forwarding
from ledgerstone.server.request import Request
from ledgerstone.server.session import Session
from ledgerstone.sim.clock import VirtualClock

FIRST = Peer(1, "10.0.0.1", 9093)
SECOND = Peer(2, "10.0.0.2", 9093)
LOST = CallFailed("the other side hung up")


@dataclass(eq=False)
class Call:
    peer: Peer
    request: ApiMessage
    on_answer: OnAnswer
    timeout_ms: int


@dataclass
class Nodes:
    """What was asked of other nodes and is not answered yet."""

    calls: list[Call] = field(default_factory=list)

    def ask(
        self,
        peer: Peer,
        request: ApiMessage,
        on_answer: OnAnswer,
        *,
        timeout_ms: int,
        least_version: int = 0,
    ) -> None:
        self.calls.append(Call(peer, request, on_answer, timeout_ms))

    def answer(self, answer: ApiMessage | CallFailed) -> None:
        self.calls.pop(0).on_answer(answer)


class Desk:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.leader: Peer | None = FIRST
        self.heartbeats, self.others = Nodes(), Nodes()
        self.answers: list[ApiMessage] = []
        self.forwarding = Forwarding(
            clock=self.clock,
            leader=lambda: self.leader,
            heartbeats=self.heartbeats,
            others=self.others,
            heartbeat_interval_ms=2_000,
        )

    def forward(self, request: ApiMessage, client: Request | None = None) -> None:
        self.forwarding.forward(request, self.answers.append, client=client)

    def advance(self, ms: int) -> None:
        """Ticks at every deadline on the way."""
        until_ms = self.clock.monotonic_ms() + ms
        while (due_ms := self.forwarding.next_deadline_ms) is not None and due_ms <= until_ms:
            self.clock.advance(ms=max(0, due_ms - self.clock.monotonic_ms()))
            self.forwarding.tick()
            next_ms = self.forwarding.next_deadline_ms
            assert next_ms is None or next_ms > self.clock.monotonic_ms(), (
                "a loop that is never idle"
            )
        self.clock.advance(ms=until_ms - self.clock.monotonic_ms())
        for each in (self.forwarding.own, self.forwarding.clients, self.forwarding.heartbeats):
            each.check_invariants()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def block(start: int = 0) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=1000)


def create(name: str = "a") -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreateTopicsRequestTopic(name=name, num_partitions=1)])


def client(api_key: int = 19, version: int = 5, host: str = "10.1.2.3") -> Request:
    session = Session(host, "PLAINTEXT", Principal("User", "ann"))
    return Request(7, api_key, version, 55, "my client", session, 0)


def envelope_of(call: Call) -> EnvelopeRequest:
    assert isinstance(call.request, EnvelopeRequest)
    return call.request


def created(call: Call, code: int = 0) -> EnvelopeResponse:
    """The answer of a controller to the CreateTopics in an envelope."""
    header, _ = decode_request_header(envelope_of(call).request_data)
    response = CreateTopicsResponse(
        topics=[CreateTopicsResponseTopic(name="a", error_code=code, num_partitions=1)]
    )
    (body,) = encode_response(response, header.api_version)
    head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    return EnvelopeResponse(response_data=head + bytes(body))  # type: ignore[arg-type]


def code_of(answer: ApiMessage) -> int:
    assert isinstance(answer, CreateTopicsResponse)
    return answer.topics[0].error_code


# -- finding the controller -------------------------------------------------------------------


def test_a_request_of_the_broker_goes_as_it_is_to_the_leader_of_the_quorum(desk: Desk) -> None:
    request = AllocateProducerIdsRequest(broker_id=3)
    desk.forward(request)
    (call,) = desk.others.calls
    assert (call.peer, call.request) == (FIRST, request)
    desk.others.answer(block())
    assert desk.answers == [block()]
    assert desk.forwarding.next_deadline_ms is None


def test_one_request_is_in_flight_and_the_next_follows_its_answer(desk: Desk) -> None:
    for number in range(3):
        desk.forward(AllocateProducerIdsRequest(broker_id=number))
    for number in range(3):
        (call,) = desk.others.calls
        assert call.request == AllocateProducerIdsRequest(broker_id=number)
        desk.others.answer(block(number))
    assert desk.answers == [block(number) for number in range(3)]


def test_without_a_leader_a_request_waits_for_one(desk: Desk) -> None:
    desk.leader = None
    desk.forward(AllocateProducerIdsRequest())
    desk.advance(950)
    assert desk.forwarding.waiting_for == "no controller is known"
    assert not desk.others.calls
    desk.leader = SECOND
    desk.advance(100)
    assert [call.peer for call in desk.others.calls] == [SECOND]


@pytest.mark.parametrize(
    "answer", [AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER), LOST], ids=str
)
def test_a_controller_that_moved_is_looked_for_after_a_pause(
    desk: Desk, answer: ApiMessage | CallFailed
) -> None:
    desk.forward(AllocateProducerIdsRequest())
    desk.others.answer(answer)
    desk.leader = SECOND
    desk.advance(99)
    assert not desk.others.calls
    desk.advance(1)
    assert [call.peer for call in desk.others.calls] == [SECOND]
    desk.others.answer(block())
    assert desk.answers == [block()]


def test_a_controller_that_hangs_is_not_waited_for_once_another_one_leads(desk: Desk) -> None:
    desk.forward(AllocateProducerIdsRequest())
    hung = desk.others.calls.pop()
    desk.advance(500)
    assert not desk.others.calls
    # An election: the old one may still answer.
    desk.leader = None
    desk.advance(500)
    assert not desk.others.calls
    desk.leader = SECOND
    desk.advance(100)
    assert [call.peer for call in desk.others.calls] == [SECOND]
    hung.on_answer(block(1))
    assert desk.answers == []
    desk.others.answer(block(2))
    hung.on_answer(LOST)
    assert desk.answers == [block(2)]


def test_a_topic_that_a_lost_answer_had_made_exists_at_the_retry(desk: Desk) -> None:
    desk.forward(create(), client())
    desk.others.answer(LOST)
    desk.advance(100)
    (call,) = desk.others.calls
    desk.others.answer(created(call, ErrorCode.TOPIC_ALREADY_EXISTS))
    assert [code_of(each) for each in desk.answers] == [ErrorCode.TOPIC_ALREADY_EXISTS]


# -- limits -----------------------------------------------------------------------------------


def test_a_clients_request_is_tried_for_a_minute_and_then_times_out(desk: Desk) -> None:
    desk.leader = None
    desk.forward(create(), client())
    desk.advance(59_999)
    assert desk.answers == []
    desk.advance(1)
    assert [code_of(each) for each in desk.answers] == [ErrorCode.REQUEST_TIMED_OUT]


def test_an_attempt_takes_half_a_minute_at_most_and_no_longer_than_is_left(desk: Desk) -> None:
    desk.forward(create(), client())
    assert desk.others.calls[0].timeout_ms == 30_000
    desk.advance(30_000)
    desk.others.answer(LOST)
    desk.advance(100)
    assert desk.others.calls[0].timeout_ms == 29_900
    desk.advance(29_900)
    assert [code_of(each) for each in desk.answers] == [ErrorCode.REQUEST_TIMED_OUT]
    # Too late.
    desk.others.answer(created(desk.others.calls[0]))
    assert len(desk.answers) == 1


def test_a_heartbeat_is_tried_for_one_interval(desk: Desk) -> None:
    desk.forward(BrokerHeartbeatRequest())
    assert desk.heartbeats.calls[0].timeout_ms == 2_000
    desk.advance(2_000)
    assert desk.answers == [BrokerHeartbeatResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)]


def test_a_change_of_the_in_sync_replicas_is_tried_for_ever(desk: Desk) -> None:
    desk.forward(AlterPartitionRequest())
    for _ in range(100):
        desk.others.answer(LOST)
        desk.advance(5_000)
    desk.others.answer(AlterPartitionResponse())
    assert desk.answers == [AlterPartitionResponse()]


def test_heartbeats_do_not_stand_behind_other_requests(desk: Desk) -> None:
    desk.forward(create(), client())
    desk.forward(AllocateProducerIdsRequest())
    desk.forward(BrokerHeartbeatRequest())
    assert len(desk.others.calls) == 2
    desk.heartbeats.answer(BrokerHeartbeatResponse(is_fenced=False))
    assert desk.answers == [BrokerHeartbeatResponse(is_fenced=False)]


def test_a_controller_that_does_not_know_the_request_is_not_asked_again(desk: Desk) -> None:
    desk.forward(create(), client())
    desk.others.answer(CallFailed("Envelope is not offered", is_unsupported=True))
    assert [code_of(each) for each in desk.answers] == [ErrorCode.UNSUPPORTED_VERSION]


def test_what_waits_for_a_controller_is_bounded_in_bytes(desk: Desk) -> None:
    desk.leader = None
    name = "a" * 1_000_000
    for _ in range(20):
        desk.forward(create(name), client())
    refused = len(desk.answers)
    assert {code_of(each) for each in desk.answers} == {ErrorCode.REQUEST_TIMED_OUT}
    assert 20 - refused == 16
    # Room again once some are answered; one that is larger than all room is taken alone.
    desk.advance(60_000)
    assert len(desk.answers) == 20
    desk.forward(create("b" * 30_000_000), client())
    assert len(desk.answers) == 20


# -- envelopes --------------------------------------------------------------------------------


def test_an_envelope_has_the_clients_request_principal_and_address(desk: Desk) -> None:
    desk.forward(create(), client())
    envelope = envelope_of(desk.others.calls[0])
    header, position = decode_request_header(envelope.request_data)
    assert header == (19, 5, 55, "my client")
    assert decode_request(19, 5, envelope.request_data, position) == create()
    assert envelope.client_host_address == bytes([10, 1, 2, 3])
    assert envelope.request_principal is not None
    # The version in front, as Kafka's principal builder writes it.
    assert envelope.request_principal[:2] == b"\0\0"
    principal = decode_record_value(DefaultPrincipalData, envelope.request_principal)
    assert principal == DefaultPrincipalData(type="User", name="ann")


def test_an_answer_is_unwrapped(desk: Desk) -> None:
    desk.forward(create(), client())
    desk.others.answer(created(desk.others.calls[0]))
    assert [code_of(each) for each in desk.answers] == [0]


def test_an_address_of_ipv6_has_sixteen_bytes(desk: Desk) -> None:
    desk.forward(create(), client(host="fe80::1%eth0"))
    assert (
        envelope_of(desk.others.calls[0]).client_host_address == b"\xfe\x80" + bytes(13) + b"\x01"
    )


def test_a_topic_made_for_another_request_goes_in_a_version_of_its_own(desk: Desk) -> None:
    asked = client(api_key=MetadataRequest.api_key, version=1)
    desk.forward(create(), asked)
    header, _ = decode_request_header(envelope_of(desk.others.calls[0]).request_data)
    assert header.api_key == CreateTopicsRequest.api_key
    assert header.api_version == 7


def test_an_envelope_to_an_old_controller_is_sent_to_the_next(desk: Desk) -> None:
    desk.forward(create(), client())
    desk.others.answer(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
    desk.leader = SECOND
    desk.advance(100)
    desk.others.answer(created(desk.others.calls[0]))
    assert [code_of(each) for each in desk.answers] == [0]


@pytest.mark.parametrize(
    "answer",
    [
        EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        EnvelopeResponse(response_data=None),
        EnvelopeResponse(response_data=b"\0\0\0\1no answer"),
        EnvelopeResponse(response_data=b"\0\0\0\x37"),
    ],
    ids=["refused", "empty", "another", "cut"],
)
def test_an_envelope_that_fails_is_not_the_clients_fault(
    desk: Desk, answer: EnvelopeResponse
) -> None:
    desk.forward(create(), client())
    desk.others.answer(answer)
    assert [code_of(each) for each in desk.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR]
