"""Pieces onto a socket: what leaves together, what stays behind, what is not taken for all."""

import errno
import os
import select
import socket
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.fs import File, FileSlice
from ledgerstone.protocol.pieces import Piece, total_size
from ledgerstone.server.sending import (
    COPIED_BYTES,
    GATHERED_BYTES,
    SENDFILE_BYTES,
    prepare,
    send_unsent,
)
from ledgerstone.server.transport import PlainTransport
from ledgerstone.system import OsFilesystem

CONTENT = bytes(range(251)) * 24_000


class Taker:
    """A socket that takes a given number of bytes in each call, then none."""

    recv_into = close = None

    def __init__(self, *takes: int) -> None:
        self.takes = list(takes)
        self.calls: list[tuple[bytes, int]] = []

    def send(self, data: Any, flags: int = 0) -> int:
        if not self.takes:
            raise BlockingIOError
        taken = bytes(data)[: self.takes.pop(0)]
        self.calls.append((taken, flags))
        return len(taken)


@pytest.fixture
def file(tmp_path: Path) -> File:
    opened = OsFilesystem().open(str(tmp_path / "log"), create=True)
    opened.pwrite(CONTENT, 0)
    return opened


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Ours, which takes little at a time, and the peer's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, address = listener.accept()
    prepare(ours, address)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    with ours, theirs:
        yield ours, theirs


def send(taker: Taker, unsent: deque[Piece]) -> None:
    sock: Any = taker
    send_unsent(PlainTransport(sock), unsent)


def test_small_slice_leaves_in_one_call_with_what_surrounds_it(file: File) -> None:
    taker = Taker(1 << 20)
    unsent: deque[Piece] = deque([b"head", FileSlice(file, 7, 1000), b"tail"])

    send(taker, unsent)

    assert taker.calls == [(b"head" + CONTENT[7:1007] + b"tail", 0)]
    assert not unsent


def test_what_precedes_a_large_slice_says_that_more_will_follow(
    pair: tuple[socket.socket, socket.socket], file: File
) -> None:
    taker = Taker(1 << 20)
    large = FileSlice(file, 0, COPIED_BYTES + 1)
    unsent: deque[Piece] = deque([b"a", FileSlice(file, 0, 10), b"b", large])

    with pytest.raises(AttributeError, match="fileno"):  # it goes on with sendfile
        send(taker, unsent)

    assert taker.calls == [(b"a" + CONTENT[:10] + b"b", socket.MSG_MORE)]
    assert list(unsent) == [large]


def test_no_more_is_copied_at_once_than_allowed(file: File) -> None:
    taker = Taker(*[1 << 20] * 10)
    slices = [FileSlice(file, 0, COPIED_BYTES)] * 9

    send(taker, deque(slices))

    assert b"".join(data for data, _ in taker.calls) == CONTENT[:COPIED_BYTES] * 9
    assert {len(data) for data, _ in taker.calls[:-1]} == {GATHERED_BYTES}


@pytest.mark.parametrize("taken", range(16))
def test_what_was_not_taken_stays_where_it_was(file: File, taken: int) -> None:
    unsent: deque[Piece] = deque([b"head", FileSlice(file, 100, 8), b"tai"])

    send(Taker(taken), unsent)

    sizes = [max(0, 4 - taken), 8 - min(8, max(0, taken - 4)), 3 - max(0, taken - 12)]
    left = [piece for piece in unsent if isinstance(piece, FileSlice)]
    assert total_size(unsent) == sum(sizes) == 15 - taken
    assert left == [FileSlice(file, 108 - sizes[1], sizes[1])] * (sizes[1] > 0)


def test_pieces_of_every_size_arrive_in_order_through_a_socket_that_takes_little(
    pair: tuple[socket.socket, socket.socket], file: File
) -> None:
    ours, theirs = pair
    sizes = [0, 1, COPIED_BYTES, COPIED_BYTES + 1, 300_000, SENDFILE_BYTES + 5, 2]
    unsent: deque[Piece] = deque()
    expected = b""
    for number, size in enumerate(sizes):
        head, tail = b"%d" % number * 39, bytes(size % 100_000)
        unsent += [head, FileSlice(file, number, size), tail]
        expected += head + CONTENT[number : number + size] + tail
    received = bytearray()
    transport = PlainTransport(ours)

    while len(received) < len(expected):
        readable, writable, _ = select.select([theirs], [ours] if unsent else [], [])
        if writable:
            send_unsent(transport, unsent)
        if readable:
            received += theirs.recv(1 << 16)

    assert received == expected
    assert not unsent


def test_socket_that_takes_nothing_is_asked_once() -> None:
    taker = Taker()
    unsent: deque[Piece] = deque([b"answer"])

    send(taker, unsent)

    assert list(unsent) == [b"answer"]


def test_piece_without_bytes_holds_nobody_up() -> None:
    taker = Taker(10, 10)
    unsent: deque[Piece] = deque([b"", b"answer", b""])

    send(taker, unsent)

    assert not unsent


@pytest.mark.parametrize("size", [10, COPIED_BYTES + 1])
def test_file_that_ends_before_its_slice_costs_the_connection(
    pair: tuple[socket.socket, socket.socket], file: File, size: int
) -> None:
    unsent: deque[Piece] = deque([FileSlice(file, len(CONTENT), size)])

    with pytest.raises(OSError, match="ends before") as failure:
        send_unsent(PlainTransport(pair[0]), unsent)

    assert failure.value.errno == errno.EIO


@pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="not chosen by socket here")
def test_only_a_peer_on_this_machine_is_sent_to_without_pacing(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        usual = congestion_control_of(listener)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as remote:
            prepare(remote, ("203.0.113.7", 4711))
            assert congestion_control_of(remote) == usual

    assert congestion_control_of(pair[0]) == b"reno"
    assert not os.get_blocking(pair[0].fileno())


def congestion_control_of(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
