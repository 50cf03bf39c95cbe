"""Memory for frames in parts: what follows what was received, what is used again, who may grow."""

from ledgerstone.protocol.frame_memory import FIRST_PART_BYTES, POOLED_BYTES, FrameMemory
from ledgerstone.protocol.framing import FrameReader, frame_prefix

MIB = 1 << 20


def collect(reader: FrameReader, size: int, sent: int) -> None:
    """The first `sent` bytes of a frame of `size`."""
    reader.feed(frame_prefix(size) + bytes(min(sent, 64 * 1024)))
    left = sent - 64 * 1024
    while left > 0:
        room = reader.room()
        count = min(left, len(room))
        room.release()
        reader.fill(count)
        left -= count


def test_memory_follows_what_was_received_and_not_what_was_announced() -> None:
    memory = FrameMemory(max_spares=1)

    collect(FrameReader(1 << 30, memory, owner=1), 100 * MIB, 10)
    little = memory.reserved_bytes
    collect(FrameReader(1 << 30, memory, owner=2), 100 * MIB, 3 * MIB)

    assert little == 10
    assert memory.reserved_bytes - little <= 2 * 3 * MIB


def test_buffer_nobody_looks_at_is_used_again_and_one_somebody_does_is_not() -> None:
    memory = FrameMemory(max_spares=2)
    first = memory.begin(1, MIB // 2, MIB, is_known=False)
    second = memory.begin(2, MIB // 2, MIB, is_known=False)
    view = memoryview(second)[:5]

    memory.take_back(first)
    memory.take_back(second)
    again = memory.begin(1, MIB // 2, MIB, is_known=False)
    other = memory.begin(2, MIB // 2, MIB, is_known=False)

    assert again is first
    assert other is not second
    assert memory.reserved_bytes == 2 * POOLED_BYTES
    assert view.nbytes == 5


def test_no_more_buffers_are_kept_than_allowed() -> None:
    memory = FrameMemory(max_spares=1)
    buffers = [memory.begin(n, MIB // 2, MIB, is_known=False) for n in range(3)]

    for buffer in buffers:
        memory.take_back(buffer)
    again = [memory.begin(n, MIB // 2, MIB, is_known=False) for n in range(3)]

    assert again[0] is buffers[0]
    assert not any(again[1] is buffer or again[2] is buffer for buffer in buffers)


def test_above_the_limit_only_the_frame_that_began_first_may_grow() -> None:
    memory = FrameMemory(limit_bytes=MIB)
    first, second = (FrameReader(1 << 30, memory, owner=owner) for owner in (1, 2))
    collect(first, 10 * MIB, 64 * 1024)
    collect(second, 10 * MIB, 64 * 1024)

    while not second.is_starved:
        second.fill(len(second.room()))
    starved_at = memory.reserved_bytes
    while first.is_collecting:
        assert not first.is_starved
        first.fill(len(first.room()))

    assert starved_at <= MIB
    assert memory.collecting == {2: None}
    assert not second.is_starved


def test_frame_that_fits_a_first_part_is_never_starved() -> None:
    memory = FrameMemory(limit_bytes=0)
    oldest, small = (FrameReader(1 << 30, memory, owner=owner) for owner in (1, 2))
    collect(oldest, MIB, 10)

    small.feed(frame_prefix(FIRST_PART_BYTES) + b"x")

    assert memory.is_tight
    assert not small.is_starved


def test_abandoned_frame_gives_its_memory_and_its_place_back() -> None:
    memory = FrameMemory(limit_bytes=MIB)
    reader = FrameReader(1 << 30, memory, owner=1)
    collect(reader, 10 * MIB, MIB // 2)

    reader.abandon()

    assert memory.reserved_bytes == 0
    assert not memory.collecting
    assert memory.has_given_back
