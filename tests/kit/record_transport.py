"""A record layer over a real socket, small enough to read: stands in for TLS in tests.

The client says hello, the server welcomes it; then each side sends records: two bytes of length,
and the bytes XORed. Plaintext can be left inside, and sealed bytes can wait for the socket.
"""

import socket
from collections.abc import Callable
from typing import Final

from ledgerstone.types import Buffer

HELLO: Final = b"hello, records?\n"
WELCOME: Final = b"welcome!\n"
REFUSED: Final = b"no such language\n"
RECORD_BYTES: Final = 16 << 10
MAX_HELD_BYTES: Final = 256 << 10
RECEIVE_BYTES: Final = 64 << 10
_XOR: Final = bytes(byte ^ 0x5A for byte in range(256))


def sealed(data: Buffer) -> bytes:
    view = memoryview(data)
    records = (
        bytes(view[start : start + RECORD_BYTES]).translate(_XOR)
        for start in range(0, len(view), RECORD_BYTES)
    )
    return b"".join(len(record).to_bytes(2, "big") + record for record in records)


def opened(sealed_bytes: bytearray) -> bytes:
    """Takes the whole records off the front."""
    parts, position = [], 0
    while len(sealed_bytes) - position >= 2:
        end = position + 2 + int.from_bytes(sealed_bytes[position : position + 2], "big")
        if end > len(sealed_bytes):
            break
        parts.append(bytes(sealed_bytes[position + 2 : end]).translate(_XOR))
        position = end
    del sealed_bytes[:position]
    return b"".join(parts)


class RecordTransport:
    """`hands_out` bounds a single `recv_into`, so that something is left inside."""

    sendfile = None
    certificate = None

    def __init__(
        self, sock: socket.socket, *, is_client: bool = False, hands_out: int = 1 << 20
    ) -> None:
        self._sock = sock
        self._hands_out = hands_out
        self._awaited = WELCOME if is_client else HELLO
        self._reply = b"" if is_client else WELCOME
        self._received = bytearray()
        self._plain = bytearray()
        self._held = bytearray(HELLO if is_client else b"")
        self.is_established = False
        # How often it was called: a loop that spins is seen here.
        self.calls = 0
        self.most_held_bytes = 0

    @property
    def is_busy(self) -> bool:
        return bool(self._plain or self._held) or not self.is_established

    @property
    def pending(self) -> int:
        return len(self._plain)

    @property
    def wants_read(self) -> bool:
        return not self.is_established

    @property
    def wants_write(self) -> bool:
        return bool(self._held)

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def recv_into(self, room: memoryview) -> int:
        self.calls += 1
        while not self._plain:
            if not self._receive():
                return 0
            self._open()
        count = min(len(self._plain), len(room), self._hands_out)
        room[:count] = self._plain[:count]
        del self._plain[:count]
        return count

    def send(self, data: Buffer, flags: int = 0) -> int:
        self.calls += 1
        self._flush()
        count = min(len(data), MAX_HELD_BYTES - len(self._held))
        if not self.is_established or count <= 0:
            raise BlockingIOError
        self._held += sealed(memoryview(data)[:count])
        self._flush()
        self.most_held_bytes = max(self.most_held_bytes, len(self._held))
        return count

    def advance(self) -> None:
        self.calls += 1
        self._flush()
        try:
            while not self.is_established:
                if not self._receive():
                    raise ConnectionResetError("the other side left in the middle of a handshake")
                self._open()
        except BlockingIOError:
            return

    def close(self) -> None:
        self._sock.close()

    def _receive(self) -> bytes:
        data = self._sock.recv(RECEIVE_BYTES)
        self._received += data
        return data

    def _open(self) -> None:
        if not self.is_established:
            size = len(self._awaited)
            if self._received[:size] != self._awaited[: len(self._received)]:
                self._sock.send(REFUSED)
                raise ConnectionAbortedError("no handshake")
            if len(self._received) < size:
                return
            del self._received[:size]
            self.is_established = True
            self._held += self._reply
            self._flush()
        self._plain += opened(self._received)

    def _flush(self) -> None:
        try:
            while self._held:
                del self._held[: self._sock.send(self._held)]
        except BlockingIOError:
            return


class Made:
    """Makes transports, and keeps them for a test to look at."""

    def __init__(self, *, is_client: bool = False, hands_out: int = 1 << 20) -> None:
        self.all: list[RecordTransport] = []
        self._make: Callable[[socket.socket], RecordTransport] = lambda sock: RecordTransport(
            sock, is_client=is_client, hands_out=hands_out
        )

    def __call__(self, sock: socket.socket) -> RecordTransport:
        self.all.append(self._make(sock))
        return self.all[-1]
