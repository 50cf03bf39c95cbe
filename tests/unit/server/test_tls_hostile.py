"""Bytes that are no TLS, or nearly: a transport ends its connection and does nothing else."""

import contextlib
import random
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.server.tls_transport import PART_BYTES, TlsTransport
from ledgerstone.tls.contexts import server_context
from ledgerstone.tls.settings import tls_settings
from tests.kit.certificates import Authority

ROUNDS = 300
ROOM = memoryview(bytearray(PART_BYTES))


class Pair:
    """The broker's side, and a client of which every byte passes through a test."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self.ours, self.theirs = socket.socketpair()
        for each in (self.ours, self.theirs):
            each.setblocking(False)
        self.transport = TlsTransport(self.ours, server, ROOM)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def hello(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self.client.do_handshake()
        return self.outgoing.read()

    def shake_hands(self) -> None:
        done = False
        while not done or self.transport.wants_read:
            try:
                self.client.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            if said := self.outgoing.read():
                self.theirs.sendall(said)
            self.transport.advance()
            try:
                self.incoming.write(self.theirs.recv(1 << 16))
            except BlockingIOError:
                continue

    def hear(self) -> int:
        """All that the broker's side takes in, as the loop would have it; ends."""
        room, taken = memoryview(bytearray(1 << 16)), 0
        for _ in range(1000):
            try:
                if self.transport.wants_read:
                    before = self.transport._greeting_bytes
                    self.transport.advance()
                    if self.transport.wants_read and before == self.transport._greeting_bytes:
                        return taken
                    continue
                count = self.transport.recv_into(room)
            except BlockingIOError:
                assert self.transport.pending == 0
                return taken
            if not count:
                return taken
            taken += count
        raise AssertionError("it never ends")

    def close(self) -> None:
        self.transport.close()
        self.theirs.close()


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    directory: Path = tmp_path_factory.mktemp("keys")
    authority = Authority()
    path = authority.issue("broker").write(directory / "broker.pem")
    server = server_context(tls_settings({"ssl.keystore.location": path})).context
    return server, authority.trusting()


@pytest.fixture
def pair(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Pair]:
    pair = Pair(*contexts)
    yield pair
    pair.close()


def changed(data: bytes, dice: random.Random) -> bytes:
    """Bits turned over, pieces left out, put in, doubled or cut off."""
    mutant = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(mutant) + 1)
        match dice.randrange(5):
            case 0 if at < len(mutant):
                mutant[at] ^= 1 << dice.randrange(8)
            case 1:
                del mutant[at : at + dice.randint(1, 20)]
            case 2:
                mutant[at:at] = dice.randbytes(dice.randint(1, 20))
            case 3:
                mutant[at:at] = mutant[at : at + dice.randint(1, 200)]
            case _:
                del mutant[max(at, 1) :]
    return bytes(mutant)


def test_a_hello_that_was_changed_costs_its_connection_at_most(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    for seed in range(ROUNDS):
        pair = Pair(*contexts)
        pair.theirs.sendall(changed(pair.hello(), random.Random(seed)))
        with contextlib.suppress(OSError):
            assert pair.hear() == 0, seed
        assert pair.transport.held_bytes < 1 << 14
        pair.close()


def test_records_that_were_changed_bring_no_byte_that_was_not_sent(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    for seed in range(ROUNDS // 3):
        pair = Pair(*contexts)
        pair.shake_hands()
        pair.client.write(b"x" * 20_000)
        pair.client.write(b"x" * 300)
        sent = pair.outgoing.read()
        mutant = changed(sent, random.Random(seed))
        pair.theirs.sendall(mutant)
        try:
            taken = pair.hear()
        except OSError:
            taken = 0
        # Whole records before the first change may come through.
        assert taken < 20_300 or mutant.startswith(sent)
        pair.close()


def test_one_byte_at_a_time_is_taken_as_it_comes(pair: Pair) -> None:
    pair.shake_hands()
    pair.client.write(b"x" * 1000)
    taken = 0
    for byte in pair.outgoing.read():
        pair.theirs.sendall(bytes([byte]))
        taken += pair.hear()

    assert taken == 1000


def test_a_goodbye_behind_data_is_heard_although_the_socket_is_silent(pair: Pair) -> None:
    pair.shake_hands()
    pair.client.write(b"x" * 100)
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.unwrap()
    pair.theirs.sendall(pair.outgoing.read())

    room = memoryview(bytearray(100))
    assert pair.transport.recv_into(room) == 100
    assert pair.transport.pending
    with pytest.raises(ConnectionResetError):
        pair.transport.recv_into(room)


def test_what_is_left_of_a_record_or_behind_it_is_pending(pair: Pair) -> None:
    pair.shake_hands()
    for _ in range(4):
        pair.client.write(b"x" * 100)
    pair.theirs.sendall(pair.outgoing.read())

    room = memoryview(bytearray(100))
    seen = []
    for _ in range(4):
        assert pair.transport.recv_into(room) == 100
        seen.append(bool(pair.transport.pending))

    assert seen == [True, True, True, False]
    with pytest.raises(BlockingIOError):
        pair.transport.recv_into(room)


def test_a_plain_answer_is_not_taken_for_tls_by_the_side_that_dialled(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    _, client = contexts
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    transport = TlsTransport(ours, client, ROOM, server_hostname="localhost")
    theirs.sendall(b"\0\0\0\x05hello")

    with pytest.raises(ConnectionError, match="it speaks no TLS"):
        transport.advance()
    transport.close()
    theirs.close()
