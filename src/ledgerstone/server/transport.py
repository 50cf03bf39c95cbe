"""Bytes of one connection over a socket: in the clear, or through a record layer. Grade S.

The seam for TLS. A transport stands between a non-blocking socket and those who read and write it;
the loop is still told of the socket. Three things differ once records stand between the two:

1. Bytes can be left inside while the socket is silent (`pending`). Whoever stops reading early asks
   again without waiting for the socket.
2. Bytes can be taken and still not have left (`wants_write`). Such an answer counts as unsent.
3. The layer holds conversations of its own, first of all the handshake (`wants_read`). Until one is
   over nothing can be sent; waiting for the socket to become writable would spin.
"""

import os
import socket
from collections.abc import Callable
from typing import Protocol

from ledgerstone.types import Buffer

SendFile = Callable[[int, int, int], int]


class Transport(Protocol):
    """Every method may raise OSError: the connection is lost."""

    @property
    def is_busy(self) -> bool:
        """One of `pending`, `wants_read` and `wants_write` holds. Asked after every receive."""
        ...

    @property
    def pending(self) -> int:
        """Received bytes inside that `recv_into` has not handed out. 0 if it would block now."""
        ...

    @property
    def wants_read(self) -> bool:
        """Nothing is sent before more is received: call `advance` when the socket is readable."""
        ...

    @property
    def wants_write(self) -> bool:
        """Bytes wait inside for the socket: call `advance` when it is writable."""
        ...

    @property
    def held_bytes(self) -> int:
        """The size of what waits inside for the socket. The transport keeps a bound."""
        ...

    @property
    def sendfile(self) -> SendFile | None:
        """Has the kernel send `size` bytes of a descriptor from a position on, and says how many it
        took; None where it must not, because the bytes have to be changed on their way."""
        ...

    @property
    def certificate(self) -> bytes | None:
        """In DER: what the other side has shown in the handshake, verified. Asked when that is
        over."""
        ...

    def recv_into(self, room: memoryview, /) -> int:
        """0 at the end of the stream; BlockingIOError when there is nothing to hand out now."""
        ...

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        """Says how many bytes were taken; BlockingIOError for none. `flags` are the socket's."""
        ...

    def advance(self) -> None:
        """Goes on with what it has to do on its own, as far as the socket lets it."""
        ...

    def close(self) -> None: ...


MakeTransport = Callable[[socket.socket], Transport]


class PlainTransport:
    """The socket itself. Its methods are the socket's own, so that nothing comes in between."""

    __slots__ = ("_sock", "close", "recv_into", "send")
    is_busy = False
    pending = 0
    wants_read = False
    wants_write = False
    held_bytes = 0
    certificate = None

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.recv_into = sock.recv_into
        self.send = sock.send
        self.close = sock.close

    def sendfile(self, descriptor: int, position: int, size: int) -> int:
        # Asked for each time: the number of a closed socket may be another one's by now.
        return os.sendfile(self._sock.fileno(), descriptor, position, size)

    def advance(self) -> None:
        """Has nothing to do on its own."""
