"""One connection seen from the broker."""

import struct

import pytest

from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.codec import decode_response, encode_request
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.framing import BadFrame, TlsHandshake
from ledgerstone.protocol.headers import RequestHeader, encode_request_header
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceTopicData,
)
from ledgerstone.protocol.server_connection import (
    WAITING_FRAME_BYTES,
    ConnectionLimits,
    OversizedRequest,
    ServerConnection,
    ServerState,
    UnknownApi,
)
from ledgerstone.protocol.wire import MalformedMessage


def connection(handled: frozenset[int] | None = None, **limits: int) -> ServerConnection:
    return ServerConnection(ConnectionLimits(**limits), handled)


def request(message: ApiMessage, version: int, correlation_id: int = 1) -> bytes:
    header = encode_request_header(RequestHeader(message.api_key, version, correlation_id, "me"))
    body = header + b"".join(encode_request(message, version))  # type: ignore[arg-type]
    return struct.pack(">i", len(body)) + body


def raw_request(api_key: int, version: int, body: bytes = b"") -> bytes:
    payload = struct.pack(">hhih", api_key, version, 9, -1) + body
    return struct.pack(">i", len(payload)) + payload


def sent(server: ServerConnection) -> bytes:
    return b"".join(server.data_to_send())  # type: ignore[arg-type]


def produce(size: int) -> ProduceRequest:
    partition = ProducePartitionData(records=bytes(size))
    return ProduceRequest(topic_data=[ProduceTopicData(name="t", partition_data=[partition])])


def test_request_comes_out_decoded_and_its_answer_carries_its_correlation_id() -> None:
    server = connection()
    server.receive_data(request(HeartbeatRequest(group_id="g"), 4, correlation_id=42))

    taken = server.next_request()
    server.respond(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    assert taken is not None
    assert taken.header == RequestHeader(12, 4, 42, "me")
    assert taken.message == HeartbeatRequest(group_id="g")
    assert sent(server) == bytes.fromhex("0000000c 0000002a 00 00000000 001b 00")


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_requests_are_the_same_however_the_stream_is_cut(step: int) -> None:
    stream = request(MetadataRequest(), 12) + request(HeartbeatRequest(group_id="g"), 3, 2)
    server = connection()
    found = []

    for start in range(0, len(stream), step):
        server.receive_data(bytearray(stream[start : start + step]))
        while (taken := server.next_request()) is not None:
            found.append((taken.header.correlation_id, taken.message))
            server.skip_response()

    assert found == [(1, MetadataRequest()), (2, HeartbeatRequest(group_id="g"))]


def test_next_request_waits_until_the_last_one_is_answered() -> None:
    server = connection()
    server.receive_data(request(HeartbeatRequest(), 0, 1) + request(HeartbeatRequest(), 0, 2))

    first = server.next_request()
    assert server.next_request() is None
    server.respond(HeartbeatResponse())
    second = server.next_request()

    assert first is not None
    assert second is not None
    assert (first.header.correlation_id, second.header.correlation_id) == (1, 2)


def test_request_without_an_answer_frees_the_way_for_the_next() -> None:
    server = connection()
    server.receive_data(request(produce(10), 7, 1) + request(HeartbeatRequest(), 0, 2))

    server.next_request()
    server.skip_response()
    second = server.next_request()

    assert second is not None
    assert second.header.correlation_id == 2
    assert sent(server) == b""


def test_frame_that_waits_is_not_decoded_before_its_turn() -> None:
    server = connection()
    server.receive_data(request(HeartbeatRequest(), 0) + raw_request(12, 0, b"\x00"))

    server.next_request()
    server.respond(HeartbeatResponse())

    with pytest.raises(MalformedMessage):
        server.next_request()
    assert server.state is ServerState.CLOSED
    assert len(sent(server)) == 10


def test_reading_stops_while_too_much_waits() -> None:
    one = request(HeartbeatRequest(group_id="x" * 50), 0)
    server = connection(max_queued_bytes=100 + WAITING_FRAME_BYTES)

    wants_read = []
    for _ in range(2):
        server.receive_data(one)
        wants_read.append(server.wants_read)
    server.next_request()
    wants_read.append(server.wants_read)

    assert wants_read == [True, False, True]


def test_reading_stops_while_many_frames_without_bytes_wait() -> None:
    server = connection()
    server.receive_data(request(HeartbeatRequest(), 0))
    server.next_request()

    server.receive_data(memoryview(bytearray(1 << 16)))

    assert not server.wants_read


def test_large_frame_under_way_is_still_read() -> None:
    server = connection(max_queued_bytes=100)

    server.receive_data(request(produce(5000), 9)[:1000])

    assert server.wants_read
    assert server.next_request() is None


def test_api_versions_of_a_newer_client_is_answered_in_the_oldest_layout() -> None:
    server = connection()
    server.receive_data(raw_request(18, 99, b"\x00whatever") + request(ApiVersionsRequest(), 4, 10))

    taken = server.next_request()
    answer = sent(server)

    assert taken is not None
    assert taken.header.api_version == 4
    assert answer[:8] == struct.pack(">ii", len(answer) - 4, 9)
    assert decode_response(18, 0, answer, 8) == ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
    )


@pytest.mark.parametrize(
    ("api_key", "version"), [(0, 0), (0, 2), (0, 14), (3, 14), (4, 0), (71, 0), (999, 0), (-1, -1)]
)
def test_key_or_version_that_is_not_offered_closes_the_connection(
    api_key: int, version: int
) -> None:
    server = connection()
    server.receive_data(raw_request(api_key, version, bytes(20)))

    with pytest.raises(UnknownApi, match=str(api_key)):
        server.next_request()

    assert server.state is ServerState.CLOSED
    assert not server.wants_read
    assert server.next_request() is None


def test_api_without_a_handler_closes_the_connection() -> None:
    server = connection(handled=frozenset({3, 18}))
    server.receive_data(request(MetadataRequest(), 5) + request(HeartbeatRequest(), 0))

    assert server.next_request() is not None
    server.respond(MetadataResponse())

    with pytest.raises(UnknownApi):
        server.next_request()


def test_requests_before_a_bad_frame_are_served_first() -> None:
    server = connection()
    server.receive_data(request(HeartbeatRequest(), 0) + b"GET / HTTP/1.1\r\n")

    assert server.next_request() is not None
    server.respond(HeartbeatResponse())
    assert not server.wants_read
    with pytest.raises(BadFrame):
        server.next_request()


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_tls_handshake_is_answered_with_a_fatal_alert(parts: int) -> None:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
    server = connection()

    for part in range(parts):
        server.receive_data(hello[part : part + 1] if part < parts - 1 else hello[part:])

    with pytest.raises(TlsHandshake, match="PLAINTEXT"):
        server.next_request()
    # Content type 21, version 3.3, two bytes: fatal, handshake_failure.
    assert server.data_to_send() == [b"\x15\x03\x03\x00\x02\x02\x28"]


def test_http_request_is_answered_with_nothing() -> None:
    server = connection()

    server.receive_data(b"GET / HTTP/1.1\r\n")

    with pytest.raises(BadFrame):
        server.next_request()
    assert server.data_to_send() == []


def test_only_requests_with_records_may_be_large() -> None:
    server = connection(max_plain_bytes=1000)
    server.receive_data(request(produce(2000), 9))
    assert server.next_request() is not None
    server.skip_response()

    server.receive_data(request(HeartbeatRequest(group_id="x" * 2000), 0))

    with pytest.raises(OversizedRequest, match="HEARTBEAT"):
        server.next_request()


def test_frame_limit_can_be_small_before_authentication() -> None:
    server = connection()
    server.limit_frames(100)

    server.receive_data(request(produce(200), 9))

    with pytest.raises(BadFrame):
        server.next_request()


def test_answer_without_a_request_is_our_own_error() -> None:
    server = connection()

    with pytest.raises(InvariantViolation):
        server.respond(HeartbeatResponse())


def test_answer_of_another_api_is_our_own_error() -> None:
    server = connection()
    server.receive_data(request(HeartbeatRequest(), 0))
    server.next_request()

    with pytest.raises(InvariantViolation, match="MetadataResponse"):
        server.respond(MetadataResponse())
