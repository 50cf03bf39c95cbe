"""A broker as a process under hostile connections: bounded memory, the right error or a close, and
nobody else notices. Figures are of the broker's own process, from /proc.
"""

import resource
import time
from collections.abc import Iterator

import pytest

from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.codec import decode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.framing import frame_prefix
from ledgerstone.protocol.headers import RequestHeader, encode_request_header
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.produce import ProduceRequest, ProduceResponse
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from tests.compat.hostile import (
    KIB,
    MIB,
    PATIENCE_S,
    Socket,
    connect,
    cpu_seconds,
    forget_peak,
    open_descriptors,
    peak_bytes,
    rss_bytes,
)
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.in_process import frame_of
from tests.unit.server.asks import fetch, produce

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
BIG = "big"
SMALL = "small"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("hostile")) as process:
        _prepare(process)
        yield process
        with connect(process) as client:
            assert client.ask(HELLO) != b"", process.log_text
        assert "Traceback" not in process.log_text, process.log_text
        process.stop()


def _prepare(process: BrokerProcess) -> None:
    """Topics, 24 MiB of data, and every path warmed up, so that figures are of the attack alone."""
    with connect(process) as client:
        large = [CreateTopicsRequestConfig("max.message.bytes", str(2 * MIB))]
        topics = [
            CreateTopicsRequestTopic(
                name=name, num_partitions=1, replication_factor=1, configs=configs
            )
            for name, configs in ((BIG, large), (SMALL, []))
        ]
        client.ask(CreateTopicsRequest(topics=topics))
        data = build_batch([(0, b"key", bytes(MIB), ())])
        for _ in range(24):
            assert error_of(client.ask(produce(data, BIG), 11)) == ErrorCode.NONE
        for _ in range(100):
            client.ask(HELLO)


def error_of(frame: bytes, version: int = 11) -> int:
    """The code of the one partition of a Produce answer."""
    response = decode_response(ApiKey.PRODUCE, version, frame, 5)
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code


@pytest.fixture
def healthy(broker: BrokerProcess) -> Iterator[Socket]:
    """A client that was there before; it is served before and after, in good time."""
    with connect(broker) as client:
        client.ask(HELLO)
        yield client
        assert served_s(client) < PATIENCE_S


def served_s(client: Socket) -> float:
    """How long a request of a healthy client takes."""
    began_s = time.monotonic()
    assert client.ask(HELLO) != b""
    return time.monotonic() - began_s


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x80\x00\x00\x00",
        (104_857_601).to_bytes(4, "big"),
        b"\x7f\xff\xff\xff" + bytes(1000),
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x02\x00\x00",
        frame_prefix(14) + b"\x03\xe7" + bytes(12),
        frame_prefix(10) + b"\x00\x03\x00\x63" + bytes(4) + b"\xff\xff",
    ],
    ids=[
        "minus one", "int32 min", "one too many", "int32 max", "http", "tls", "empty frame",
        "half a header", "unknown api", "unknown version",
    ],
)  # fmt: skip
def test_what_is_no_request_closes_within_a_second_and_costs_nothing(
    broker: BrokerProcess, data: bytes
) -> None:
    before = rss_bytes(broker)

    for _ in range(10):
        with connect(broker) as attacker:
            began_s = time.monotonic()
            attacker.raw.sendall(data)
            assert attacker.is_closed()
            assert time.monotonic() - began_s < PATIENCE_S

    assert rss_bytes(broker) - before < MIB


@pytest.mark.usefixtures("healthy")
def test_announced_frame_costs_only_what_is_sent_of_it(broker: BrokerProcess) -> None:
    before = rss_bytes(broker)

    attackers = [connect(broker) for _ in range(100)]
    for attacker in attackers:
        attacker.raw.sendall((100 * MIB).to_bytes(4, "big") + b"\x00\x00\x00\x0b")
    with connect(broker) as other:
        other.ask(HELLO)
    after = rss_bytes(broker)
    for attacker in attackers:
        attacker.raw.close()

    assert after - before < 2 * MIB


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize("api_key", sorted({0, 1, 2, 3, 8, 9, 11, 14, 18, 19, 20, 22, 32, 44, 75}))
def test_count_bombs_close_or_are_answered_and_cost_nothing(
    broker: BrokerProcess, api_key: int
) -> None:
    """The body is counts of two thousand million, whatever a field expects to find there."""
    before = rss_bytes(broker)

    for version, bomb in ((0, b"\x7f\xff\xff\xff"), (3, b"\xff\xff\xff\xff\x07"), (9, b"\x7f\xff")):
        for lead in range(12):
            header = encode_request_header(RequestHeader(api_key, version, 1, None))
            content = header + bytes(lead) + bomb * 40
            with connect(broker) as attacker:
                attacker.raw.sendall(frame_prefix(len(content)) + content + b"\xff\xff\xff\xff")
                while attacker.frame():
                    pass

    assert rss_bytes(broker) - before < 2 * MIB


def _bomb(codec: Codec, size: int) -> bytearray:
    return build_batch([(0, b"key", bytes(size), ())], codec=codec)


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("codec", "size", "code"),
    [
        (Codec.GZIP, 128 * MIB, 10),
        (Codec.LZ4, 128 * MIB, 10),
        (Codec.ZSTD, 256 * MIB, 10),
        # Snappy shrinks to a 21st at most: what fits max.message.bytes is not a bomb.
        (Codec.SNAPPY, 20 * MIB, 0),
        (Codec.SNAPPY, 60 * MIB, 10),
    ],
    ids=lambda value: value.config_name if isinstance(value, Codec) else "",
)
def test_decompression_bomb_costs_at_most_64_mib(
    broker: BrokerProcess, codec: Codec, size: int, code: int
) -> None:
    bomb = _bomb(codec, size)
    before = rss_bytes(broker)
    forget_peak(broker)

    with connect(broker) as attacker:
        began_s = time.monotonic()
        codes = [
            error_of(attacker.ask(produce(bomb, BIG if code == 0 else SMALL), 11)) for _ in range(3)
        ]
        took_s = time.monotonic() - began_s

    assert codes == [code] * 3
    assert peak_bytes(broker) - before < 64 * MIB
    assert took_s < PATIENCE_S


def test_slow_senders_block_nobody_and_are_served_in_the_end(
    broker: BrokerProcess, healthy: Socket
) -> None:
    frame = frame_of(HELLO, 3)
    slow = [connect(broker) for _ in range(50)]
    worst_s = 0.0

    for byte in frame:
        for each in slow:
            each.raw.sendall(bytes((byte,)))
        worst_s = max(worst_s, served_s(healthy))

    assert worst_s < PATIENCE_S
    for each in slow:
        assert each.frame() != b""
        each.raw.close()


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
def test_thousand_idle_connections_cost_four_kilobytes_each(
    broker: BrokerProcess, healthy: Socket
) -> None:
    before = rss_bytes(broker)

    idle = [connect(broker) for _ in range(1000)]
    assert idle[-1].ask(HELLO) != b""
    after = rss_bytes(broker)
    took_s = served_s(healthy)
    for each in idle:
        each.raw.close()

    assert after - before < 1000 * 4 * KIB + MIB
    assert took_s < PATIENCE_S
    wait_until(lambda: open_descriptors(broker) < 500, "the connections are gone")


@pytest.mark.usefixtures("many_descriptors")
def test_consumers_that_never_read_hold_no_records_in_memory(
    broker: BrokerProcess, healthy: Socket
) -> None:
    request = frame_of(fetch(topic=BIG, partition_max_bytes=50 * MIB, max_bytes=50 * MIB), 12)
    before = rss_bytes(broker)

    # 200 times 24 MiB asked for five times over: 23 GiB, none of it taken.
    deaf = [connect(broker, receive_bytes=4096) for _ in range(200)]
    for each in deaf:
        each.raw.sendall(request * 5)
    worst_s = max(served_s(healthy) for _ in range(20))
    after = rss_bytes(broker)
    for each in deaf:
        each.raw.close()

    assert after - before < 8 * MIB
    assert worst_s < PATIENCE_S


def test_requests_pipelined_ten_thousand_deep_are_held_back_and_then_answered_in_order(
    broker: BrokerProcess, healthy: Socket
) -> None:
    count = 10_000
    frames = b"".join(frame_of(HELLO, 3, number) for number in range(count))
    before = rss_bytes(broker)
    forget_peak(broker)

    with connect(broker, receive_bytes=4096) as eager:
        eager.raw.settimeout(0.2)
        position = 0
        try:
            # Sends until the broker takes no more, which it must stop doing at some point.
            while position < len(frames):
                position += eager.raw.send(frames[position : position + 64 * KIB])
        except TimeoutError:
            pass
        worst_s = max(served_s(healthy) for _ in range(20))
        held = peak_bytes(broker) - before
        eager.raw.settimeout(10.0)
        answered: list[int] = []
        while len(answered) < count:
            answered.append(int.from_bytes(eager.frame()[:4], "big"))
            if position < len(frames):
                position += eager.raw.send(frames[position : position + KIB])

    assert answered == list(range(count))
    assert held < 8 * MIB
    assert worst_s < PATIENCE_S


def test_descriptors_used_up_pause_accepting_without_spinning_and_it_recovers(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with BrokerProcess(tmp_path_factory.mktemp("descriptors")) as process:
        with connect(process) as early:
            early.ask(CreateTopicsRequest(topics=[CreateTopicsRequestTopic(SMALL, 1, 1)]))
            limit = open_descriptors(process) + 30
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (limit, limit))

            crowd = [connect(process) for _ in range(100)]
            wait_until(lambda: open_descriptors(process) >= limit, "no descriptor is left")
            began_s, began_cpu_s = time.monotonic(), cpu_seconds(process)
            # A long poll serves as a clock, and shows that connected clients are served.
            assert early.ask(fetch(topic=SMALL, max_wait_ms=1500, min_bytes=1), 12) != b""
            share = (cpu_seconds(process) - began_cpu_s) / (time.monotonic() - began_s)
            for each in crowd:
                each.raw.close()

            began_s = time.monotonic()
            with connect(process) as late:
                assert late.ask(HELLO) != b""
            recovered_s = time.monotonic() - began_s

        assert share < 0.2
        assert recovered_s < PATIENCE_S
        assert "accept paused" in process.log_text
        assert "Traceback" not in process.log_text
        process.stop()


def test_connections_beyond_the_limit_are_closed_at_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    settings = {"max.connections.per.ip": "5"}
    with BrokerProcess(tmp_path_factory.mktemp("limit"), settings) as process:
        kept = [connect(process) for _ in range(5)]
        assert all(each.ask(HELLO) for each in kept)

        with connect(process) as refused:
            assert refused.is_closed()
        kept.pop().raw.close()

        def has_room() -> bool:
            with connect(process) as another:
                another.raw.sendall(frame_of(HELLO, 3))
                return another.frame() != b""

        assert wait_until(has_room, "the place is given back", 5.0)
        for each in kept:
            each.raw.close()


def test_half_senders_hold_no_more_than_the_limit_and_others_are_served(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    limit = 16 * MIB
    settings = {"queued.max.request.bytes": str(limit)}
    with BrokerProcess(tmp_path_factory.mktemp("half"), settings) as process:
        _prepare(process)
        attackers = [connect(process) for _ in range(100)]
        before = rss_bytes(process)
        with connect(process) as healthy:
            for attacker in attackers:
                attacker.send_at_most(frame_prefix(2 * MIB) + bytes(MIB))
            worst_s = max(served_s(healthy) for _ in range(20))
            small = build_batch([(0, b"key", bytes(1000), ())])
            code = error_of(healthy.ask(produce(small, SMALL), 11))
            held = rss_bytes(process) - before
            for attacker in attackers:
                attacker.raw.close()
            large = build_batch([(0, b"key", bytes(MIB), ())])
            later_code = error_of(healthy.ask(produce(large, BIG), 11))

        # Buffers double as they grow, and the one that began first may finish whatever others do.
        assert held < limit + 8 * MIB
        assert worst_s < PATIENCE_S
        assert (code, later_code) == (ErrorCode.NONE, ErrorCode.NONE)
        assert "Traceback" not in process.log_text
        process.stop()


def test_pieces_of_a_produce_from_many_connections_do_not_mix(
    broker: BrokerProcess, healthy: Socket
) -> None:
    """All connections share one receive buffer; what waits has to be a copy."""
    senders = [connect(broker) for _ in range(20)]
    frames = [
        frame_of(produce(build_batch([(0, b"key", bytes([number]) * 3000, ())]), SMALL), 11, number)
        for number in range(20)
    ]

    for start in range(0, max(map(len, frames)), 700):
        for sender, frame in zip(senders, frames, strict=True):
            sender.raw.sendall(frame[start : start + 700])

    codes = [error_of(sender.frame()) for sender in senders]
    for sender in senders:
        sender.raw.close()
    assert codes == [ErrorCode.NONE] * 20
    request = fetch(topic=SMALL, partition_max_bytes=MIB)
    stored = healthy.ask(request, 12)
    assert all(bytes([number]) * 3000 in stored for number in range(20))


def test_empty_and_null_produce_requests_are_answered(broker: BrokerProcess) -> None:
    with connect(broker) as client:
        assert client.ask(ProduceRequest(acks=1), 11) != b""
        assert error_of(client.ask(produce(b"", SMALL), 11)) == ErrorCode.INVALID_RECORD
