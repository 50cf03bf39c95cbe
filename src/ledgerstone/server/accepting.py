"""Sockets that listen, on the loop of the runtime. Grade S."""

import asyncio
import errno
import socket
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from ledgerstone.server.quotas.connection_quotas import EntryVerdict
from ledgerstone.server.reporting import Reporting
from ledgerstone.server.sending import WOULD_BLOCK
from ledgerstone.server.session import DEFAULT_LISTENER
from ledgerstone.server.transport import MakeTransport, PlainTransport

ACCEPTS_PER_TURN: Final = 64
# Accepting stops for this long when the process has no descriptor left.
ACCEPT_PAUSE_S: Final = 0.2
# Sockets of addresses that come too fast; more of them are closed at once.
MOST_HELD: Final = 1000
_OUT_OF: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


class Listening(NamedTuple):
    """A socket that listens, and what its connections are."""

    sock: socket.socket
    name: str = DEFAULT_LISTENER
    make_transport: MakeTransport = PlainTransport


class _Accepted(NamedTuple):
    sock: socket.socket
    peer: object


Adopt = Callable[[Listening, socket.socket, object], None]


def host_of(peer: object) -> str:
    """Of the address that a socket names."""
    return str(peer[0]) if isinstance(peer, tuple) else "local"


class EntryGate(Protocol):
    """The broker: who may come in."""

    def has_room(self, listener: str) -> bool: ...

    def admission(self, listener: str, host: str) -> EntryVerdict: ...


class Accepting:
    """`adopt` gets each accepted socket with its listener and the address of its peer.

    A listener without room, or whose connections come too fast, is not listened to for a while: who
    wants in waits in the system's queue. Sockets of an address that comes too fast are held unread,
    then closed."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, reporting: Reporting, adopt: Adopt, gate: EntryGate
    ) -> None:
        self._loop = loop
        self._reporting = reporting
        self._adopt = adopt
        self._gate = gate
        self._all: list[Listening] = []
        # Listeners that wait for room, each with a socket that was accepted before.
        self._full: dict[str, tuple[Listening, _Accepted | None]] = {}
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}

    def start(self, listening: Listening) -> None:
        listening.sock.setblocking(False)
        self._all.append(listening)
        self._loop.add_reader(listening.sock, self._accept, listening)

    def stop(self, keep: Collection[str] = ()) -> None:
        """All but the listeners of those names."""
        for listening in self._all:
            if listening.name not in keep:
                self._loop.remove_reader(listening.sock)
                listening.sock.close()
                waiting = self._full.pop(listening.name, None)
                if waiting is not None and waiting[1] is not None:
                    waiting[1].sock.close()
        self._all = [each for each in self._all if each.name in keep]
        for sock, timer in self._held.items():
            timer.cancel()
            sock.close()
        self._held.clear()

    def _accept(self, listening: Listening) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self._gate.has_room(listening.name):
                self._loop.remove_reader(listening.sock)
                self._full[listening.name] = listening, None
                return
            try:
                sock, peer = listening.sock.accept()
            except WOULD_BLOCK:
                return
            except OSError as error:
                if error.errno in _OUT_OF:
                    self._pause(listening, error)
                return
            if not self._let_in(listening, _Accepted(sock, peer)):
                return

    def _let_in(self, listening: Listening, accepted: _Accepted) -> bool:
        """Whether the next one may be accepted."""
        admission = self._gate.admission(listening.name, host_of(accepted.peer))
        if admission.is_refused:
            self._hold(accepted.sock, admission.wait_ms)
        elif admission.wait_ms:
            self._loop.remove_reader(listening.sock)
            self._loop.call_later(admission.wait_ms / 1000, self._enter, listening, accepted)
            return False
        else:
            self._adopt(listening, *accepted)
        return True

    def _enter(self, listening: Listening, accepted: _Accepted) -> None:
        """One that had to wait, because connections come too fast, or for room."""
        if listening.sock.fileno() < 0:
            accepted.sock.close()
        elif self._gate.has_room(listening.name):
            self._adopt(listening, *accepted)
            self._resume(listening)
        else:
            self._full[listening.name] = listening, accepted

    def someone_left(self) -> None:
        """There may be room again."""
        for name, (listening, accepted) in list(self._full.items()):
            if not self._gate.has_room(name):
                continue
            del self._full[name]
            if accepted is not None:
                self._enter(listening, accepted)
            else:
                self._resume(listening)

    def _hold(self, sock: socket.socket, wait_ms: int) -> None:
        if len(self._held) >= MOST_HELD:
            sock.close()
            return
        self._held[sock] = self._loop.call_later(wait_ms / 1000, self._let_go, sock)

    def _let_go(self, sock: socket.socket) -> None:
        del self._held[sock]
        sock.close()

    def _pause(self, listening: Listening, error: OSError) -> None:
        self._reporting.accept_paused(error)
        self._loop.remove_reader(listening.sock)
        self._loop.call_later(ACCEPT_PAUSE_S, self._resume, listening)

    def _resume(self, listening: Listening) -> None:
        if listening.sock.fileno() >= 0:
            self._loop.add_reader(listening.sock, self._accept, listening)
