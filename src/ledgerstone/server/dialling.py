"""Connections this node opens, on the loop of the runtime. Grade S.

A dialled connection is read whenever bytes are there: its agent asked for them, and bounds how many
by what it asks. Bytes that the socket does not take wait here, in their order.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server.effects import Dial
from ledgerstone.server.results import DialFailed, Dialled
from ledgerstone.server.sending import WOULD_BLOCK, prepare, send_unsent
from ledgerstone.server.transport import MakeTransport, Transport
from ledgerstone.tls.failures import HandshakeFailed

_RECEIVE_BYTES: Final = 1 << 18
_HUNG_UP: Final = "the other side hung up"


class Caller(Protocol):
    """Whom to tell. Each call may send, hang up and dial before it returns."""

    def dial_ended(self, dial: Dial, result: Dialled | DialFailed) -> None: ...

    def received_from_dialled(self, dial: Dial, number: int, data: memoryview) -> None: ...

    def room_for_dialled(self, dial: Dial, number: int) -> memoryview | None: ...

    def filled_dialled(self, dial: Dial, number: int, count: int) -> None: ...

    def lost_dialled(self, dial: Dial, number: int, reason: str) -> None: ...


@dataclass(slots=True, eq=False)
class _Line:
    number: int
    dial: Dial
    transport: Transport
    fd: int
    unsent: deque[Piece] = field(default_factory=deque)
    writing: bool = False


class Dialling:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        caller: Caller,
        take_number: Callable[[], int],
        make_transport: MakeTransport,
    ) -> None:
        self._loop = loop
        self._caller = caller
        self._take_number = take_number
        self._make_transport = make_transport
        # For listeners that are not plain; None where this one is.
        self.secured: Callable[[socket.socket, Dial], Transport | None] | None = None
        self._lines: dict[int, _Line] = {}
        self._attempts: set[asyncio.Task[None]] = set()
        # Overwritten by the next receive, whoever it is for.
        self._room = memoryview(bytearray(_RECEIVE_BYTES))

    def __len__(self) -> int:
        return len(self._lines)

    def dial(self, effect: Dial) -> None:
        attempt = self._loop.create_task(self._dial(effect))
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)

    async def _dial(self, effect: Dial) -> None:
        try:
            async with asyncio.timeout(effect.timeout_ms / 1000):
                sock = await self._connected(effect.host, effect.port)
                transport = await self._greeted(sock, effect)
        except TimeoutError:
            reason = f"{effect.host}:{effect.port} did not answer for {effect.timeout_ms} ms"
            self._caller.dial_ended(effect, DialFailed(reason))
            return
        except HandshakeFailed as error:
            reason = f"no TLS with {effect.host}:{effect.port}: {error}"
            self._caller.dial_ended(effect, DialFailed(reason))
            return
        except OSError as error:
            self._caller.dial_ended(effect, DialFailed(str(error)))
            return
        except ValueError as error:
            # Nodes say what they are called. This cannot be looked up, or be in a certificate.
            reason = f"{effect.host!r} is no name of a host: {error}"
            self._caller.dial_ended(effect, DialFailed(reason))
            return
        line = _Line(self._take_number(), effect, transport, sock.fileno())
        self._lines[line.number] = line
        self._loop.add_reader(line.fd, self._readable, line)
        self._caller.dial_ended(effect, Dialled(line.number))
        self._read_pending(line)

    async def _connected(self, host: str, port: int) -> socket.socket:
        """The first address of the host that takes the connection."""
        refusal = OSError(f"{host} has no address")
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                await self._loop.sock_connect(sock, address)
                prepare(sock, address)
            except OSError as error:
                refusal = error
                sock.close()
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise refusal

    async def _greeted(self, sock: socket.socket, effect: Dial) -> Transport:
        """The transport of a connected socket, once its handshake is over."""
        try:
            made = None if self.secured is None else self.secured(sock, effect)
        except BaseException:
            sock.close()
            raise
        transport = self._make_transport(sock) if made is None else made
        try:
            while transport.wants_write or transport.wants_read:
                await self._ready(sock.fileno(), for_writing=transport.wants_write)
                transport.advance()
        except BaseException:
            transport.close()
            raise
        return transport

    async def _ready(self, fd: int, *, for_writing: bool) -> None:
        loop, ready = self._loop, asyncio.Event()
        add, remove = (
            (loop.add_writer, loop.remove_writer)
            if for_writing
            else (loop.add_reader, loop.remove_reader)
        )
        add(fd, ready.set)
        try:
            await ready.wait()
        finally:
            remove(fd)

    def send(self, number: int, pieces: list[Piece]) -> None:
        """Does nothing once the connection has gone."""
        line = self._lines.get(number)
        if line is not None:
            line.unsent.extend(pieces)
            self._send_unsent(line)

    def hang_up(self, number: int) -> None:
        line = self._lines.get(number)
        if line is not None:
            self._close(line)

    def lose(self, number: int, reason: str) -> None:
        """As if the connection had broken."""
        line = self._lines.get(number)
        if line is not None:
            self._lose(line, reason)

    async def stop(self) -> None:
        """No agent hears of it."""
        for attempt in list(self._attempts):
            attempt.cancel()
        if self._attempts:
            await asyncio.wait(self._attempts)
        for line in list(self._lines.values()):
            self._close(line)

    def _readable(self, line: _Line) -> None:
        # The rest of a large answer goes where it will be read.
        place = self._caller.room_for_dialled(line.dial, line.number)
        try:
            count = line.transport.recv_into(self._room if place is None else place)
        except WOULD_BLOCK:
            self._watch(line)
            return
        except OSError as error:
            self._lose(line, str(error))
            return
        if count == 0:
            self._lose(line, _HUNG_UP)
            return
        if place is None:
            self._caller.received_from_dialled(line.dial, line.number, self._room[:count])
        else:
            place.release()
            self._caller.filled_dialled(line.dial, line.number, count)
        if line.transport.is_busy or line.unsent:
            self._watch(line)
            self._read_pending(line)

    def _read_pending(self, line: _Line) -> None:
        """The socket may stay silent about what was received already."""
        if line.transport.pending and line.number in self._lines:
            self._loop.call_soon(self._read_again, line)

    def _read_again(self, line: _Line) -> None:
        if line.transport.pending and line.number in self._lines:
            self._readable(line)

    def _writable(self, line: _Line) -> None:
        self._send_unsent(line)

    def _send_unsent(self, line: _Line) -> None:
        transport = line.transport
        try:
            if transport.wants_write:
                transport.advance()
            send_unsent(transport, line.unsent)
        except OSError as error:
            # In a turn of its own: an agent may be in the middle of this one.
            self._stop_writing(line)
            line.unsent.clear()
            self._loop.call_soon(self._lose, line, str(error))
            return
        self._watch(line)

    def _watch(self, line: _Line) -> None:
        """Writes while something waits for the socket to take it; reads always."""
        transport = line.transport
        is_ready = bool(line.unsent) and not transport.wants_read
        if not is_ready and not transport.wants_write:
            self._stop_writing(line)
        elif not line.writing and line.number in self._lines:
            line.writing = True
            self._loop.add_writer(line.fd, self._writable, line)

    def _stop_writing(self, line: _Line) -> None:
        if line.writing:
            line.writing = False
            self._loop.remove_writer(line.fd)

    def _lose(self, line: _Line, reason: str) -> None:
        if line.number in self._lines:
            self._close(line)
            self._caller.lost_dialled(line.dial, line.number, reason)

    def _close(self, line: _Line) -> None:
        del self._lines[line.number]
        self._loop.remove_reader(line.fd)
        self._stop_writing(line)
        line.transport.close()
