"""Bytes received where the broker says: no copy of a large request, and memory that has a limit."""

from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.frame_memory import FIRST_PART_BYTES
from ledgerstone.protocol.messages.produce import ProduceResponse
from ledgerstone.protocol.server_connection import WAITING_FRAME_BYTES
from ledgerstone.server.effects import Effect, Resume
from ledgerstone.types import INT32_MAX
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.kit.sized import examples
from tests.unit.server.asks import (
    BY_NAME,
    create_topic,
    fetch,
    fetched,
    join,
    produce,
    values_in,
    write,
)

KIB, MIB = 1 << 10, 1 << 20
LIMIT = 4 * MIB
BIG = "9000000"


def receive(machine: InProcess, client: Client, data: bytes, step: int = INT32_MAX) -> bytes:
    """As the runtime does it; returns what the broker does not want to read now."""
    while data:
        room = machine.broker.room_for(client.number)
        if room is None or not machine.broker.wants_read(client.number):
            break
        count = min(len(room), len(data), step)
        room[:count] = data[:count]
        del room
        machine.perform(machine.broker.received(client.number, count))
        machine.serve_backlog()
        data = data[count:]
    return data


def limited() -> InProcess:
    machine = InProcess(settings={"queued.max.request.bytes": str(LIMIT)})
    create_topic(machine.connect(), max_message_bytes=BIG)
    return machine


def produce_frame(client: Client, letter: str, size: int) -> bytes:
    return client.frame(produce(batch(("key", letter * size))))[1]


def reserved(machine: InProcess) -> int:
    return machine.broker.peers.memory.reserved_bytes


def stored(client: Client) -> list[str]:
    request = fetch(partition_max_bytes=1 << 24, max_bytes=1 << 24)
    return values_in(fetched(client, request))


def resumed(effects: list[Effect]) -> list[int]:
    return [effect.connection for effect in effects if isinstance(effect, Resume)]


@examples(25)
@given(
    sizes=st.lists(st.sampled_from([10, 5000, 70_000, 300_000, 1_100_000]), max_size=5),
    step=st.sampled_from([1000, 4096, 65_536, INT32_MAX]),
)
def test_requests_are_served_whatever_the_steps_they_are_received_in(
    sizes: list[int], step: int
) -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client, max_message_bytes=BIG)
    frames = [produce_frame(client, "abcde"[n], size) for n, size in enumerate(sizes)]

    left = receive(machine, client, b"".join(frames), step)

    assert left == b""
    answers = [client.take(ProduceResponse) for _ in sizes]
    assert [a.responses[0].partition_responses[0].error_code for a in answers] == [
        ErrorCode.NONE
    ] * len(sizes)
    assert (stored(client) if sizes else []) == ["abcde"[n] * size for n, size in enumerate(sizes)]
    assert reserved(machine) == 0
    machine.check_invariants()


def test_memory_of_an_answered_request_is_used_again() -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client, max_message_bytes=BIG)
    frames = [produce_frame(client, letter, 900 * KIB) for letter in "ab"]
    buffers = []

    for frame in frames:
        rest = receive(machine, client, frame[: 64 * KIB])
        room = machine.broker.room_for(client.number)
        assert room is not None
        buffers.append(room.obj)
        del room
        receive(machine, client, rest + frame[64 * KIB :])

    assert buffers[0] is buffers[1]
    assert stored(machine.connect()) == ["a" * 900 * KIB, "b" * 900 * KIB]


def test_half_senders_cost_no_more_than_the_limit_and_others_are_served() -> None:
    machine = limited()
    hostile = [machine.connect() for _ in range(40)]
    honest = machine.connect()

    for each in hostile:
        receive(machine, each, produce_frame(each, "h", 900 * KIB)[:-1])
    answered = receive(machine, honest, produce_frame(honest, "v", 1000))

    assert reserved(machine) < LIMIT + 2 * MIB + len(hostile) * FIRST_PART_BYTES
    assert answered == b""
    assert (
        honest.take(ProduceResponse).responses[0].partition_responses[0].error_code
        == ErrorCode.NONE
    )


def test_starved_connection_is_read_again_once_there_is_memory() -> None:
    machine = limited()
    first, second = machine.connect(), machine.connect()
    held = produce_frame(first, "f", 4 * MIB)
    receive(machine, first, held[:-1])
    waiting = produce_frame(second, "s", 900 * KIB)

    left = receive(machine, second, waiting)
    was_read = machine.broker.wants_read(second.number)
    effects = machine.broker.receive(first.number, memoryview(bytearray(held[-1:])))
    machine.perform(effects)
    rest = receive(machine, second, left)

    assert left
    assert not was_read
    assert resumed(effects) == [second.number]
    assert rest == b""
    assert first.take(ProduceResponse)
    assert second.take(ProduceResponse)


def test_who_falls_silent_in_a_request_is_closed_when_others_wait_for_its_memory() -> None:
    machine = limited()
    silent, other = machine.connect(), machine.connect()
    receive(machine, silent, produce_frame(silent, "x", 4 * MIB)[:-1])
    waiting = produce_frame(other, "y", 900 * KIB)
    left = receive(machine, other, waiting)

    machine.advance(20_000)
    rest = receive(machine, other, left)

    assert left
    assert silent.closed == "silent in the middle of a request"
    assert rest == b""
    assert other.take(ProduceResponse)


def test_who_falls_silent_in_a_request_is_left_alone_while_nobody_needs_its_memory() -> None:
    machine = limited()
    silent, other = machine.connect(), machine.connect()
    frame = produce_frame(silent, "x", 900 * KIB)
    receive(machine, silent, frame[:-1])

    machine.advance(20_000)
    write(other, "small")
    receive(machine, silent, frame[-1:])

    assert silent.take(ProduceResponse)


def test_disconnect_in_the_middle_of_a_request_gives_its_memory_back() -> None:
    machine = limited()
    client = machine.connect()
    receive(machine, client, produce_frame(client, "x", 900 * KIB)[:-1])

    before = reserved(machine)
    client.leave()

    assert before > 900 * KIB
    assert reserved(machine) == 0


def test_frames_without_bytes_behind_a_waiting_request_are_not_read_without_end() -> None:
    machine = limited()
    hostile, honest = machine.connect(), machine.connect()
    poll = hostile.frame(fetch(max_wait_ms=60_000, min_bytes=1), BY_NAME)[1]

    left = receive(machine, hostile, poll + bytes(3 * MIB))
    waiting = reserved(machine)
    hostile.leave()

    assert len(left) >= 2 * MIB
    # Each of a quarter of a million frames takes some hundred bytes.
    assert waiting > 20 * MIB
    assert reserved(machine) == 0
    assert write(honest, "served") == [0]


def test_requests_that_wait_behind_another_count_as_memory() -> None:
    machine = limited()
    client = machine.connect()
    poll = client.frame(fetch(max_wait_ms=1000, min_bytes=1), BY_NAME)[1]
    behind = produce_frame(client, "b", 10_000)

    receive(machine, client, poll + behind)
    waiting = reserved(machine)
    machine.advance(1000)

    assert waiting == len(behind) - 4 + WAITING_FRAME_BYTES
    assert reserved(machine) == 0
    assert len(client.answers) == 2


def test_who_waits_for_others_holds_no_frame_meanwhile() -> None:
    # Joins that wait for minutes would else starve whoever sends a large request.
    machine = limited()
    clients = [machine.connect() for _ in range(8)]
    for number, client in enumerate(clients):
        request = join(f"group-{number}", topics=bytes(MIB))
        left = receive(machine, client, client.frame(request, 3)[1], 65_536)
        assert left == b""
        assert client.is_waiting
    assert reserved(machine) == 0
    writer = machine.connect()
    assert receive(machine, writer, produce_frame(writer, "a", 3 * MIB), 65_536) == b""
    assert writer.take(ProduceResponse)
    assert machine.broker.groups.memory.members_bytes > 8 * MIB
