"""One connection seen from a client, mostly against our own server side."""

import struct

import pytest

from ledgerstone.errors import InvariantViolation, UnsupportedVersion
from ledgerstone.protocol.api import advertised
from ledgerstone.protocol.client_connection import (
    ClientConnection,
    ClientState,
    NegotiationFailed,
    UnexpectedResponse,
)
from ledgerstone.protocol.codec import encode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ledgerstone.protocol.messages.produce import ProduceRequest
from ledgerstone.protocol.server_connection import ConnectionLimits, ServerConnection
from ledgerstone.protocol.wire import MalformedMessage

KEYS = (0, 3, 12, 18)


def new_client() -> ClientConnection:
    return ClientConnection("me", "1.0")


def sent(side: ClientConnection | ServerConnection) -> bytes:
    return b"".join(side.data_to_send())  # type: ignore[arg-type]


def answer(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


def versions_body(response: ApiVersionsResponse, version: int) -> bytes:
    return b"".join(encode_response(response, version))  # type: ignore[arg-type]


def ready_pair() -> tuple[ClientConnection, ServerConnection]:
    client, server = new_client(), ServerConnection(ConnectionLimits())
    server.receive_data(sent(client))
    server.next_request()
    server.respond(ApiVersionsResponse(api_keys=advertised(KEYS)))
    client.receive_data(sent(server))
    return client, server


def test_negotiation_asks_first_and_then_is_ready() -> None:
    client, server = new_client(), ServerConnection(ConnectionLimits())

    server.receive_data(sent(client))
    asked = server.next_request()
    server.respond(ApiVersionsResponse(api_keys=advertised(KEYS), finalized_features_epoch=7))
    states = [client.state]
    assert client.receive_data(sent(server)) == []
    states.append(client.state)

    assert asked is not None
    assert asked.header.api_version == 4
    assert isinstance(asked.message, ApiVersionsRequest)
    assert asked.message.client_software_name == "ledgerstone"
    assert states == [ClientState.NEGOTIATING, ClientState.READY]
    assert client.best_version(0) == 13
    assert client.api_versions is not None
    assert client.api_versions.finalized_features_epoch == 7


@pytest.mark.parametrize(
    ("listed", "second_try"),
    [([ApiVersion(api_key=18, max_version=2)], 2), ([], 0), ([ApiVersion(18, 0, 9)], 0)],
)
def test_broker_that_refuses_our_version_is_asked_again_in_an_older_one(
    listed: list[ApiVersion], second_try: int
) -> None:
    client = new_client()
    sent(client)
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=listed)

    client.receive_data(answer(0, versions_body(refusal, 0)))
    again = sent(client)
    accepted = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, max_version=5)])
    client.receive_data(answer(1, versions_body(accepted, second_try)))

    assert struct.unpack_from(">hh", again, 4) == (18, second_try)
    assert client.state is ClientState.READY
    assert client.best_version(3) == 5


def test_broker_that_refuses_the_oldest_version_fails_the_negotiation() -> None:
    client = new_client()
    refusal = versions_body(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0)

    client.receive_data(answer(0, refusal))

    with pytest.raises(NegotiationFailed):
        client.receive_data(answer(1, refusal))
    assert client.state is ClientState.CLOSED


def test_responses_are_matched_with_the_requests_in_their_order() -> None:
    client, server = ready_pair()

    first = client.send(HeartbeatRequest(group_id="g"))
    second = client.send(MetadataRequest())
    server.receive_data(sent(client))
    server.next_request()
    server.respond(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    server.next_request()
    server.respond(MetadataResponse(cluster_id="c"))
    responses = client.receive_data(sent(server))

    assert [each.correlation_id for each in responses] == [first, second]
    assert responses[0].message == HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert isinstance(responses[1].message, MetadataResponse)
    assert client.in_flight == 0


def test_version_is_the_newest_both_know_within_the_given_bound() -> None:
    client, _ = ready_pair()

    assert client.best_version(3) == 13
    assert client.best_version(3, at_most=7) == 7
    with pytest.raises(UnsupportedVersion, match="does not offer Fetch"):
        client.best_version(1)
    with pytest.raises(UnsupportedVersion, match="we know v3-13"):
        client.best_version(0, at_most=2)


def test_request_without_a_response_is_not_waited_for() -> None:
    client, server = ready_pair()

    client.send(ProduceRequest(acks=0), expects_response=False)
    server.receive_data(sent(client))

    assert client.in_flight == 0
    assert server.next_request() is not None


@pytest.mark.parametrize("correlation_id", [1, -1])
def test_response_that_answers_no_request_in_flight_closes(correlation_id: int) -> None:
    client, _ = ready_pair()

    with pytest.raises(UnexpectedResponse, match=f"{correlation_id}, oldest in flight: None"):
        client.receive_data(answer(correlation_id, b""))

    assert client.state is ClientState.CLOSED
    with pytest.raises(InvariantViolation):
        client.receive_data(b"")


def test_negotiation_answer_without_an_error_code_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        new_client().receive_data(answer(0, b"\x00"))


def test_nothing_is_sent_before_the_versions_are_known() -> None:
    with pytest.raises(InvariantViolation, match="not known yet"):
        new_client().send(MetadataRequest())
