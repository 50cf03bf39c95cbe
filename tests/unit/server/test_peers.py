"""Who is connected, told apart from what they say."""

import tracemalloc

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.protocol.frame_memory import FIRST_PART_BYTES
from ledgerstone.protocol.framing import frame_prefix
from ledgerstone.server.peers import RECEIVE_BYTES, Peers
from ledgerstone.types import INT32_MAX

BIG = 1 << 20
IDLE_MS = 600_000


def peers(**settings: str) -> Peers:
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    return Peers(BrokerConfig.from_raw(keys), frozenset({0}))


def begin_frame(connected: Peers, number: int, size: int) -> None:
    """A first part of a large frame, as it is received."""
    part = bytearray(frame_prefix(size) + bytes(FIRST_PART_BYTES))
    connected.by_number[number].wire.receive_data(memoryview(part))


def silent(connected: Peers, now_ms: int) -> list[int]:
    found = []
    for peer, _ in connected.too_silent(now_ms):
        peer.is_closing = True
        found.append(peer.number)
    return found


def test_host_may_come_again_once_one_of_its_connections_has_left() -> None:
    connected = peers(max_connections_per_ip="1")

    refusals = [connected.admit(1, "a", 0), connected.admit(2, "a", 0), connected.admit(3, "b", 0)]
    connected.leave(1)

    assert refusals == [None, "max.connections.per.ip=1 reached by a", None]
    assert connected.admit(4, "a", 0) is None
    connected.check_invariants()


def test_connection_that_left_twice_or_never_came_is_no_trouble() -> None:
    connected = peers()
    connected.admit(1, "a", 0)

    for number in (1, 1, 7):
        connected.leave(number)

    assert connected.room_for(1) is None
    connected.check_invariants()


def test_who_is_muted_for_weeks_and_comes_again_and_again_leaves_nothing_behind() -> None:
    connected = peers()
    connected.admit(1, "a", 0)
    connected.mute(1, INT32_MAX)
    tracemalloc.start()

    for number in range(2, 20_000):
        connected.admit(number, "a", 0)
        connected.mute(number, INT32_MAX + number)
        connected.leave(number)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held_bytes < 200_000
    assert connected.take_unmuted(INT32_MAX) == [1]
    assert connected.next_unmute_ms is None


def test_between_requests_all_share_one_buffer_and_in_a_large_one_each_has_its_own() -> None:
    connected = peers()
    connected.admit(1, "a", 0)
    connected.admit(2, "a", 0)
    begin_frame(connected, 2, BIG)

    shared, own = connected.room_for(1), connected.room_for(2)

    assert shared is connected.shared
    assert len(connected.shared) == RECEIVE_BYTES
    assert own is not None
    assert own.obj is not connected.shared.obj


def test_who_starves_is_read_again_when_the_first_in_line_is_gone() -> None:
    connected = peers(queued_max_request_bytes="4096")
    for number in (1, 2):
        connected.admit(number, "a", 0)
        begin_frame(connected, number, BIG)

    room = connected.room_for(1), connected.room_for(2)
    connected.leave(1)
    resumed = connected.take_resumable()

    assert room[0] is not None
    assert room[1] is None
    assert resumed == [2]
    assert connected.room_for(2) is not None
    connected.check_invariants()


def test_who_is_silent_for_too_long_is_told_unless_it_is_not_read() -> None:
    connected = peers(queued_max_request_bytes="4096")
    for number in (1, 2, 3):
        connected.admit(number, "a", 0)
    begin_frame(connected, 1, BIG)
    begin_frame(connected, 2, BIG)
    connected.room_for(2)

    soon, later = silent(connected, 10_001), silent(connected, IDLE_MS + 1)

    # The first holds what the second waits for; the third is merely idle.
    assert soon == [1]
    assert later == [1, 3]
