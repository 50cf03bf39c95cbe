"""Connections: order, waiting, limits, and what closes them."""

import struct

import pytest

from ledgerstone.protocol.api import OFFERED, ApiKey
from ledgerstone.protocol.codec import decode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.fetch import FetchResponse
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ledgerstone.protocol.messages.produce import ProduceResponse
from ledgerstone.protocol.pieces import total_size
from ledgerstone.server.effects import Send
from tests.kit.in_process import Client, InProcess, frame_of
from tests.kit.logs import batch
from tests.unit.server.asks import (
    BY_NAME,
    create_topic,
    end_offset,
    fetch,
    produce,
    read_all,
    write,
)

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def test_pipelined_requests_are_answered_in_order_though_the_first_has_to_wait(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    first, long_poll = client.frame(fetch(max_wait_ms=500, min_bytes=1), BY_NAME)
    second, hello = client.frame(HELLO)
    third, metadata = client.frame(MetadataRequest(topics=[]))

    client.feed(long_poll + hello + metadata)
    waited = client.is_waiting
    machine.advance(500)

    assert waited
    assert [correlation_id for correlation_id, _ in client.answers] == [first, second, third]


@pytest.mark.parametrize("size", [1, 3, 7])
def test_requests_that_arrive_in_crumbs_are_answered(client: Client, size: int) -> None:
    frames = client.frame(HELLO)[1] + client.frame(MetadataRequest(topics=[]))[1]

    for start in range(0, len(frames), size):
        client.feed(frames[start : start + size])

    assert client.take(ApiVersionsResponse).error_code == ErrorCode.NONE
    assert client.take(MetadataResponse).controller_id == 1


def test_waiting_request_keeps_nothing_of_a_buffer_that_is_used_again(
    machine: InProcess, client: Client
) -> None:
    """`feed` overwrites what it gave; the produce behind the long poll has to be a copy."""
    create_topic(client)
    _, long_poll = client.frame(fetch({0: 0}, max_wait_ms=100, min_bytes=1), BY_NAME)
    _, append = client.frame(produce(batch(("key", "kept"))))

    client.feed(long_poll + append)
    machine.advance(100)

    client.take(FetchResponse)
    assert (
        client.take(ProduceResponse).responses[0].partition_responses[0].error_code
        == ErrorCode.NONE
    )
    assert read_all(client) == ["kept"]


def test_answers_of_one_turn_stop_at_a_megabyte_until_the_socket_took_them(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, max_message_bytes="1000000")
    write(client, "v" * 700_000)
    frames = b"".join(client.frame(fetch(), BY_NAME)[1] for _ in range(5))

    effects = machine.broker.receive(client.number, memoryview(bytearray(frames)))
    has_backlog = machine.broker.has_backlog(client.number)
    machine.perform(effects)
    before = len(client.answers)
    machine.serve_backlog()

    assert before == 2
    assert has_backlog
    assert len(client.answers) == 5


def test_client_is_not_read_while_a_whole_request_of_it_waits(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    client.send(fetch(max_wait_ms=5_000, min_bytes=1), BY_NAME)
    ahead = client.frame(HELLO)[1]

    client.feed(ahead[:-1])
    after_a_part = machine.broker.wants_read(client.number)
    client.feed(ahead[-1:])
    after_the_whole = machine.broker.wants_read(client.number)
    machine.advance(5_000)

    assert after_a_part
    assert not after_the_whole
    assert machine.broker.wants_read(client.number)


def test_pipelining_connection_is_served_in_turns_that_end(
    machine: InProcess, client: Client
) -> None:
    frames = b"".join(client.frame(HELLO)[1] for _ in range(1_000))

    effects = machine.broker.receive(client.number, memoryview(bytearray(frames)))
    has_backlog = machine.broker.has_backlog(client.number)
    machine.perform(effects)
    in_first_turn = len(client.answers)
    machine.serve_backlog()

    assert has_backlog
    assert in_first_turn < 100
    assert len(client.answers) == 1_000


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 10_000])
def test_requests_that_are_refused_unseen_are_answered_in_turns_that_end(
    machine: InProcess, client: Client, count: int
) -> None:
    # ApiVersions in a version that nobody knows, without a client id.
    refused = struct.pack(">ihhihb", 11, 18, 99, 1, -1, 0)
    behind = client.frame(HELLO)[1]
    turns = []

    effects = machine.broker.receive(client.number, memoryview(bytearray(refused * count + behind)))
    while effects:
        sent = [each for each in effects if isinstance(each, Send)]
        turns.append(sum(total_size(each.pieces) for each in sent))
        effects = (
            machine.broker.sent(client.number) if machine.broker.has_backlog(client.number) else []
        )

    one = len(answer_to_refused(machine, refused))
    assert max(turns) <= 64 * one + 1000
    assert sum(turns) > count * one
    assert machine.broker.wants_read(client.number)


def answer_to_refused(machine: InProcess, refused: bytes) -> bytes:
    (answer,) = machine.broker.receive(machine.connect().number, memoryview(bytearray(refused)))
    assert isinstance(answer, Send)
    return b"".join(answer.pieces)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [63, 64, 65, 128])
@pytest.mark.parametrize("end", [b"\xff\xff\xff\xff", bytes(4)], ids=["bad size", "empty frame"])
def test_what_breaks_the_protocol_closes_wherever_a_turn_ends(
    client: Client, count: int, end: bytes
) -> None:
    frames = b"".join(client.frame(HELLO)[1] for _ in range(count))

    client.feed(frames + end)

    assert len(client.answers) == count
    assert client.closed is not None


def test_produce_without_acks_gets_no_answer_and_the_next_request_does(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)

    client.send(produce(batch(("key", "value")), acks=0), expects_answer=False)
    answer = client.ask(HELLO, ApiVersionsResponse)

    assert answer.error_code == ErrorCode.NONE
    assert end_offset(machine) == 1


def test_error_without_acks_closes_the_connection_after_earlier_answers(client: Client) -> None:
    hello = client.frame(HELLO)[1]
    refused = client.frame(produce(b"", "nowhere", acks=0), expects_answer=False)[1]

    client.feed(hello + refused)

    assert len(client.answers) == 1
    assert client.closed is not None
    assert "nowhere-0" in client.closed


def test_nothing_behind_a_closing_request_is_served(machine: InProcess, client: Client) -> None:
    create_topic(client)
    refused = client.frame(produce(b"", "nowhere", acks=0), expects_answer=False)[1]
    behind = client.frame(produce(batch(("key", "value")), acks=0), expects_answer=False)[1]

    client.feed(refused + behind)

    assert client.closed is not None
    assert end_offset(machine) == 0


def test_disconnect_while_parked_forgets_the_request(machine: InProcess, client: Client) -> None:
    create_topic(client)
    reader = machine.connect()
    reader.send(fetch(max_wait_ms=1_000, min_bytes=1), BY_NAME)

    reader.leave()
    write(client, "value")
    machine.advance(2_000)

    assert len(machine.broker.purgatory) == 0
    assert reader.answers == []
    assert machine.broker.connection_count == 1


def test_unknown_api_and_version_close_and_say_so(machine: InProcess) -> None:
    for key, version in ((999, 0), (ApiKey.METADATA, 99), (ApiKey.PRODUCE, 2), (-1, -1)):
        client = machine.connect_raw()
        head = (key & 0xFFFF).to_bytes(2, "big") + (version & 0xFFFF).to_bytes(2, "big")
        content = head + bytes(4) + b"\xff\xff\x00"
        client.feed(len(content).to_bytes(4, "big") + content)

        assert client.closed is not None
        assert f"{int(key)} v{version}" in client.closed


def test_api_versions_too_new_is_answered_in_the_oldest_layout(machine: InProcess) -> None:
    client = machine.connect_raw()
    newest = OFFERED[ApiKey.API_VERSIONS].last
    frame = bytearray(frame_of(HELLO, newest, correlation_id=5))
    frame[6:8] = (newest + 9).to_bytes(2, "big")

    effects = machine.broker.receive(client.number, memoryview(frame))
    sent = b"".join(bytes(piece) for each in effects for piece in each.pieces)  # type: ignore[union-attr, arg-type]
    answer = decode_response(ApiKey.API_VERSIONS, 0, sent, 8)

    assert sent[4:8] == bytes((0, 0, 0, 5))
    assert isinstance(answer, ApiVersionsResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.api_keys[0].max_version == newest


def test_idle_connection_is_closed_at_once_and_a_waiting_one_is_not() -> None:
    machine = InProcess(settings={"connections.max.idle.ms": "5000"})
    idle, waiting, busy = machine.connect(), machine.connect(), machine.connect()
    create_topic(busy)
    waiting.send(fetch(max_wait_ms=60_000, min_bytes=1), BY_NAME)

    for _ in range(7):
        machine.advance(1_000)
        busy.ask(HELLO, ApiVersionsResponse)

    assert idle.closed is not None
    assert idle.closed.startswith("idle for ")
    assert waiting.closed is None
    assert busy.closed is None
    machine.check_invariants()


def test_peer_that_takes_its_answer_slowly_is_not_idle() -> None:
    machine = InProcess(settings={"connections.max.idle.ms": "5000"})
    slow, dead = machine.connect(), machine.connect()

    for _ in range(7):
        machine.advance(1_000)
        machine.broker.taking(slow.number)

    assert slow.closed is None
    assert dead.closed is not None


def test_connections_beyond_the_limit_are_refused_and_room_is_given_back() -> None:
    machine = InProcess(settings={"max.connections": "2"})
    first, _ = machine.connect(), machine.connect()

    third = machine.connect()
    first.leave()
    fourth = machine.connect()

    assert third.closed == "max.connections=2 reached"
    assert fourth.closed is None
    assert machine.broker.counters.connections_refused == 1
    machine.check_invariants()


def test_connections_of_one_address_beyond_its_limit_are_refused_and_others_are_not() -> None:
    machine = InProcess(settings={"max.connections.per.ip": "1"})
    first = machine.connect("10.0.0.1")

    second = machine.connect("10.0.0.1")
    other = machine.connect("10.0.0.2")
    first.leave()
    again = machine.connect("10.0.0.1")

    assert second.closed == "max.connections.per.ip=1 reached by 10.0.0.1"
    assert other.closed is None
    assert again.closed is None


def test_refused_connection_is_not_served(machine: InProcess) -> None:
    full = InProcess(settings={"max.connections": "0"})
    refused = full.connect()

    effects = full.broker.receive(refused.number, memoryview(bytearray(frame_of(HELLO, 3))))

    assert refused.closed is not None
    assert effects == []
