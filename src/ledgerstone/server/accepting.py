"""Sockets that listen, on the loop of the runtime. Grade S."""

import asyncio
import errno
import socket
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from ledgerstone.server.reporting import Reporting
from ledgerstone.server.sending import WOULD_BLOCK
from ledgerstone.server.session import DEFAULT_LISTENER
from ledgerstone.server.transport import MakeTransport, PlainTransport

ACCEPTS_PER_TURN: Final = 64
# Accepting stops for this long when the process has no descriptor left.
ACCEPT_PAUSE_S: Final = 0.2
_OUT_OF: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


class Listening(NamedTuple):
    """A socket that listens, and what its connections are."""

    sock: socket.socket
    name: str = DEFAULT_LISTENER
    make_transport: MakeTransport = PlainTransport


Adopt = Callable[[Listening, socket.socket, object], None]


class Accepting:
    """`adopt` gets each accepted socket with its listener and the address of its peer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reporting: Reporting, adopt: Adopt) -> None:
        self._loop = loop
        self._reporting = reporting
        self._adopt = adopt
        self._all: list[Listening] = []

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
        self._all = [each for each in self._all if each.name in keep]

    def _accept(self, listening: Listening) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, peer = listening.sock.accept()
            except WOULD_BLOCK:
                return
            except OSError as error:
                if error.errno in _OUT_OF:
                    self._pause(listening, error)
                return
            self._adopt(listening, sock, peer)

    def _pause(self, listening: Listening, error: OSError) -> None:
        self._reporting.accept_paused(error)
        self._loop.remove_reader(listening.sock)
        self._loop.call_later(ACCEPT_PAUSE_S, self._resume, listening)

    def _resume(self, listening: Listening) -> None:
        if listening.sock.fileno() >= 0:
            self._loop.add_reader(listening.sock, self._accept, listening)
