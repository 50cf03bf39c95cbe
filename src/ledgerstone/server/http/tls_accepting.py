"""Accepts connections with TLS for the HTTP port. Grade S.

Each gets the newest context, so that a renewed certificate needs no restart; asyncio's own server
keeps the one that it was started with.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

_LOG: Final = logging.getLogger(__name__)
HANDSHAKE_S: Final = 10.0
_SHUTDOWN_S: Final = 1.0
# Handshakes at a time; more wait in the backlog of the socket.
MOST_HANDSHAKES: Final = 256
_PAUSE_S: Final = 0.1
_LIMIT_BYTES: Final = 8192

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TlsAccepting:
    """From `start` to `close` and `wait_closed`, as asyncio's server."""

    def __init__(
        self, sock: socket.socket, context: Callable[[], ssl.SSLContext], serve: Serve
    ) -> None:
        self._sock = sock
        self._context = context
        self._serve = serve
        self._accepting: asyncio.Task[None] | None = None
        self._handshakes: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_HANDSHAKES)

    def start(self) -> None:
        self._sock.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
        for each in self._handshakes:
            each.cancel()
        self._sock.close()

    async def wait_closed(self) -> None:
        tasks = [*self._handshakes, *(() if self._accepting is None else (self._accepting,))]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                sock, _ = await loop.sock_accept(self._sock)
            except OSError as error:
                # Out of descriptors, most likely: there will be some again.
                self._room.release()
                _LOG.warning("https accept failed reason=%s", error)
                await asyncio.sleep(_PAUSE_S)
                continue
            except asyncio.CancelledError:
                self._room.release()
                raise
            task = asyncio.create_task(self._shake_hands(sock))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LIMIT_BYTES, loop=loop)
        try:
            await loop.connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(reader, self._serve, loop=loop),
                sock,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            # Who speaks no TLS, or another one: there is nobody to tell.
            sock.close()
        finally:
            self._room.release()
