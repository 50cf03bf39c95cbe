"""The whole machine under hostile connections: whatever arrives, it answers or closes, and a
healthy connection beside it is served as if nothing had happened.

An exception that leaves the broker fails the test, so a fault of ours cannot hide behind a closed
connection. Memory is measured around every case.
"""

import random
import tracemalloc
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.protocol.api import OFFERED, accepts
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.server.dispatch import HANDLED, client_handler
from tests.kit.in_process import InProcess, RawClient, frame_of
from tests.kit.logs import batch
from tests.kit.sized import examples
from tests.property.wild_requests import Wild
from tests.unit.server.asks import commit_offset, create_topic, write

MIB = 1 << 20
KEYS = sorted(HANDLED)
BLOBS = [bytes(batch(("key", "value"))), bytes(batch((None, "value"))), bytes(batch(("key", None)))]
# A case may grow a log by a batch and a group by a member; it may not grow anything by much.
MOST_BYTES_PER_CASE = MIB

keys = st.sampled_from(KEYS)
seeds = st.integers(0, 1 << 32)


class World:
    """One broker for many cases, made anew before it has seen so many that a failure is hard to
    trace back."""

    def __init__(self) -> None:
        # A first pass or request inside a case would count what it imports as memory of the case.
        import_module("ledgerstone.records.kernels.cleaning")
        for key in KEYS:
            client_handler(key)
        self.cases = 0
        self.renew()

    def renew(self) -> None:
        self.machine = InProcess(settings={"num.partitions": "2"})
        self.healthy = self.machine.connect("10.0.0.2")
        create_topic(self.healthy)
        create_topic(self.healthy, "compacted", cleanup_policy="compact")
        write(self.healthy, "first", "second")
        commit_offset(self.healthy, "group", 1)
        self.topic_ids = [each.topic_id for each in self.machine.broker.image.topics.values()]

    def attack(self, *pieces: bytes, pass_ms: int = 0) -> RawClient:
        """Feeds a new connection and checks everything afterwards."""
        self.cases += 1
        if self.cases % 200 == 0:
            self.renew()
        attacker = self.machine.connect_raw()
        tracemalloc.start()
        for piece in pieces:
            if attacker.closed is None:
                attacker.feed(piece)
        self.machine.advance(pass_ms)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MOST_BYTES_PER_CASE + 20 * sum(map(len, pieces)), peak
        self.check_others()
        if attacker.closed is None:
            attacker.leave()
        self.machine.check_invariants()
        return attacker

    def check_others(self) -> None:
        self.machine.check_invariants()
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        answer = self.healthy.ask(request, ApiVersionsResponse)
        assert answer.error_code == ErrorCode.NONE


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def wild_frame(world: World, key: int, seed: int) -> bytes:
    """A request that is well formed in a version the broker takes."""
    dice = random.Random(seed)
    versions = [each for each in range(OFFERED[key].last + 1) if accepts(key, each)]
    version = dice.choice(versions)
    message = Wild(dice, world.topic_ids, BLOBS).request(key, version)
    return frame_of(message, version, dice.randrange(1 << 31))


@examples(200)
@given(data=st.lists(st.binary(max_size=200), max_size=4))
def test_noise_is_answered_with_a_close_or_waited_for(world: World, data: list[bytes]) -> None:
    world.attack(*data)


@examples(100)
@given(key=st.integers(-2, 100), version=st.integers(-2, 20), body=st.binary(max_size=100))
def test_noise_behind_a_header_is_answered_or_closed(
    world: World, key: int, version: int, body: bytes
) -> None:
    content = (key & 0xFFFF).to_bytes(2, "big") + (version & 0xFFFF).to_bytes(2, "big")
    content += bytes(4) + b"\xff\xff" + body

    attacker = world.attack(len(content).to_bytes(4, "big") + content, pass_ms=100)

    assert attacker.closed is not None or attacker.received_bytes or key in KEYS


@pytest.mark.parametrize("key", KEYS)
@examples(8)
@given(seed=seeds, pass_ms=st.sampled_from([0, 0, 1, 700, 31_000]))
def test_well_formed_request_that_means_anything_is_answered(
    world: World, key: int, seed: int, pass_ms: int
) -> None:
    world.attack(wild_frame(world, key, seed), pass_ms=pass_ms)


@examples(75)
@given(chosen=st.lists(st.tuples(keys, seeds), min_size=2, max_size=12), cut=st.integers(0, 400))
def test_pipelined_requests_of_two_connections_leave_both_consistent(
    world: World, chosen: list[tuple[int, int]], cut: int
) -> None:
    """The second connection's requests arrive while those of the first wait."""
    frames = [wild_frame(world, key, seed) for key, seed in chosen]
    half = len(frames) // 2
    other = world.machine.connect_raw()
    other.feed(b"".join(frames[:half]))

    stream = b"".join(frames[half:])
    world.attack(stream[:cut], stream[cut:], pass_ms=500)

    if other.closed is None and other.machine is world.machine:
        other.leave()
        world.machine.check_invariants()


@examples(200)
@given(
    key=keys,
    seed=seeds,
    flips=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.none() | st.integers(0),
)
def test_mutated_request_is_answered_or_closed(
    world: World, key: int, seed: int, flips: list[tuple[int, int]], cut: int | None
) -> None:
    frame = bytearray(wild_frame(world, key, seed))
    if cut is not None:
        # Shorter than it was, with a size that says so: every field may be missing.
        del frame[4 + cut % (len(frame) - 4) :]
        frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    for position, value in flips:
        if len(frame) > 8:
            # The size and the key stay: those were the noise tests' business.
            frame[8 + position % (len(frame) - 8)] = value

    world.attack(bytes(frame), pass_ms=100)


@examples(150)
@given(key=keys, seed=seeds, at=st.integers(0), bomb=st.sampled_from([
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00", b"\x7f\xff", b"\x80\x00",
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x00\x0f\xff\xff",
]))  # fmt: skip
def test_counts_and_lengths_that_lie_cost_nothing(
    world: World, key: int, seed: int, at: int, bomb: bytes
) -> None:
    frame = bytearray(wild_frame(world, key, seed))
    position = 10 + at % max(1, len(frame) - 10)
    frame[position : position + len(bomb)] = bomb
    frame[:4] = (len(frame) - 4).to_bytes(4, "big")

    world.attack(bytes(frame), pass_ms=100)


@pytest.mark.parametrize("size", [-1, -(1 << 31), 104_857_601, (1 << 31) - 1, 0x47455420])
def test_size_that_is_none_closes_at_once(world: World, size: int) -> None:
    attacker = world.attack((size & 0xFFFFFFFF).to_bytes(4, "big") + b"/ HTTP/1.1\r\n\r\n")

    assert attacker.closed is not None
    assert str(size) in attacker.closed
