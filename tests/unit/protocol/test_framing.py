"""Frames out of a stream, however it is cut."""

import struct
import tracemalloc
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.protocol.framing import BadFrame, FrameReader

LIMIT = 1000


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def feed_in_steps(reader: FrameReader, stream: bytes, step: int) -> list[bytes]:
    found: list[bytes] = []
    for start in range(0, len(stream), step):
        # Each piece in a buffer that is overwritten afterwards, as a receive buffer is.
        buffer = bytearray(stream[start : start + step])
        found += [bytes(frame) for frame in reader.feed(memoryview(buffer))]
        buffer[:] = bytes(len(buffer))
    return found


@given(
    bodies=st.lists(st.binary(max_size=50), max_size=8),
    step=st.integers(1, 70),
    tail=st.binary(max_size=3),
)
def test_frames_are_the_same_however_the_stream_is_cut(
    bodies: list[bytes], step: int, tail: bytes
) -> None:
    reader = FrameReader(LIMIT)

    found = feed_in_steps(reader, framed(*bodies) + tail, step)

    assert found == bodies
    assert reader.pending_bytes == len(tail)


@given(
    bodies=st.lists(st.binary(max_size=50), max_size=8),
    steps=st.lists(st.integers(1, 20), min_size=1, max_size=9),
)
def test_frames_are_the_same_where_parts_are_received_into_their_own_buffer(
    bodies: list[bytes], steps: list[int]
) -> None:
    reader = FrameReader(LIMIT)
    left, found = framed(*bodies), []

    for step in cycle(steps):
        if not left:
            break
        if reader.is_collecting:
            room = reader.room()
            count = min(step, len(room), len(left))
            room[:count] = left[:count]
            del room
            found += [bytes(frame) for frame in reader.fill(count)]
        else:
            count = min(step, len(left))
            found += [bytes(frame) for frame in reader.feed(bytearray(left[:count]))]
        left = left[count:]

    assert found == bodies
    assert reader.pending_bytes == 0


@given(bodies=st.lists(st.binary(max_size=50), min_size=1, max_size=5))
def test_whole_stream_and_single_bytes_give_the_same_frames(bodies: list[bytes]) -> None:
    stream = framed(*bodies)

    whole = feed_in_steps(FrameReader(LIMIT), stream, len(stream))
    single = feed_in_steps(FrameReader(LIMIT), stream, 1)

    assert whole == single == bodies


def test_frame_that_lies_whole_in_the_buffer_is_a_writable_view_of_it() -> None:
    buffer = bytearray(framed(b"abc", b"def"))
    reader = FrameReader(LIMIT)

    first, second = reader.feed(memoryview(buffer))
    second[0] = ord("D")

    assert reader.lends
    assert first.obj is buffer
    assert buffer.endswith(b"Def")


def test_frame_that_was_collected_is_writable_and_borrows_nothing() -> None:
    reader = FrameReader(LIMIT)
    stream = framed(b"abcdef")

    assert reader.feed(bytearray(stream[:6])) == []
    (frame,) = reader.feed(bytearray(stream[6:]))
    frame[0] = ord("A")

    assert not reader.lends
    assert bytes(frame) == b"Abcdef"


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 0x47455420])
def test_size_that_is_negative_or_too_large_is_a_bad_frame(size: int) -> None:
    reader = FrameReader(LIMIT)

    with pytest.raises(BadFrame, match=str(size)):
        reader.feed(struct.pack(">i", size))
    with pytest.raises(BadFrame):
        reader.feed(framed(b"abc"))


def test_frames_before_a_bad_one_are_still_handed_out() -> None:
    reader = FrameReader(LIMIT)

    frames = reader.feed(framed(b"abc") + struct.pack(">i", -5))

    assert [bytes(frame) for frame in frames] == [b"abc"]
    assert reader.failure is not None
    with pytest.raises(BadFrame):
        reader.feed(b"")


def test_frame_of_exactly_the_limit_is_taken() -> None:
    assert len(FrameReader(LIMIT).feed(framed(bytes(LIMIT)))[0]) == LIMIT


def test_announced_size_costs_nothing_until_bytes_arrive() -> None:
    reader = FrameReader(100_000_000)

    tracemalloc.start()
    reader.feed(struct.pack(">i", 100_000_000) + bytes(10))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 10_000
    assert reader.pending_bytes == 10
