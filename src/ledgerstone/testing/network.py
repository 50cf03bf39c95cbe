"""The network between brokers of one process, cut and healed by a test. Shell.

Brokers talk over real sockets. What one of them dials passes through a gate here, which knows both
ends. A cut swallows bytes without an error, as a pulled cable does, and each side notices by its
own timeouts. A new connection needs both directions, as TCP's handshake does. When
the network heals, connections that lost bytes break, and are dialled again.

Connections of clients are not touched.
"""

import contextlib
import socket
import threading
import weakref

from ledgerstone.server.transport import MakeTransport, PlainTransport
from ledgerstone.types import Buffer


class CutNetwork:
    def __init__(self) -> None:
        self._node_of: dict[int, int] = {}  # by port
        # What one node says does not reach the other.
        self._cuts: set[tuple[int, int]] = set()
        self._gates: weakref.WeakSet[GatedTransport] = weakref.WeakSet()
        # Tests cut in their own thread; each node has one as well.
        self._lock = threading.Lock()

    def place(self, node_id: int, port: int) -> None:
        self._node_of[port] = node_id

    def cut(self, one: int, other: int, *, one_way: bool = False) -> None:
        """Nothing that `one` says reaches `other`; nor the other way round, unless `one_way`."""
        with self._lock:
            self._cuts |= {(one, other)} if one_way else {(one, other), (other, one)}

    def heal(self) -> None:
        with self._lock:
            self._cuts = set()
            gates = list(self._gates)
        for gate in gates:
            gate.healed()

    def reaches(self, one: int, other: int) -> bool:
        return (one, other) not in self._cuts

    def transport_of(self, node_id: int) -> MakeTransport:
        """For connections that this node dials."""

        def make(sock: socket.socket) -> PlainTransport:
            peer = self._node_of.get(sock.getpeername()[1])
            if peer is None:
                return PlainTransport(sock)
            gate = GatedTransport(sock, self, node_id, peer)
            with self._lock:
                self._gates.add(gate)
            return gate

        return make


class GatedTransport(PlainTransport):
    __slots__ = ("__weakref__", "_has_lost", "_here", "_is_greeting", "_network", "_there")

    def __init__(self, sock: socket.socket, network: CutNetwork, here: int, there: int) -> None:
        super().__init__(sock)
        self._network = network
        self._here = here
        self._there = there
        self._has_lost = False
        self._is_greeting = not (network.reaches(here, there) and network.reaches(there, here))
        self.recv_into = self._recv_into  # type: ignore[assignment]
        self.send = self._send  # type: ignore[assignment]

    @property
    def wants_read(self) -> bool:  # type: ignore[override]
        """A handshake that gets no answer: the dial times out."""
        return self._is_greeting

    def advance(self) -> None:
        if self._is_greeting:
            raise ConnectionResetError("the network was cut")

    def sendfile(self, descriptor: int, position: int, size: int) -> int:
        if self._network.reaches(self._here, self._there):
            return super().sendfile(descriptor, position, size)
        self._has_lost = True
        return size

    def _send(self, data: Buffer, flags: int = 0, /) -> int:
        if self._network.reaches(self._here, self._there):
            return self._sock.send(data, flags)
        self._has_lost = True
        return memoryview(data).nbytes

    def _recv_into(self, room: memoryview, /) -> int:
        count = self._sock.recv_into(room)
        if count and not self._network.reaches(self._there, self._here):
            self._has_lost = True
            raise BlockingIOError
        return count

    def healed(self) -> None:
        """A stream with a hole in it is of no use. The loop of the node sees its end."""
        if self._has_lost or self._is_greeting:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
