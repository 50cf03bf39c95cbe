"""Connections that were accepted, on the loop of the runtime. Grade S.

Raw non-blocking sockets on add_reader and add_writer. Bytes are received where the broker says, and
answers leave in the same turn as far as the socket takes them; `sending` has how. Back-pressure: a
connection whose answer has not left yet is not read, so a client can make the broker hold one
answer for it at most.
"""

import asyncio
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server.accepting import Listening, host_of
from ledgerstone.server.broker import Broker
from ledgerstone.server.effects import Close, Effect, Resume, Send
from ledgerstone.server.reporting import Reporting
from ledgerstone.server.sending import WOULD_BLOCK, held_bytes, prepare, send_unsent
from ledgerstone.server.transport import Transport
from ledgerstone.server.unsent import Unsent

# Receives for one connection, while they add to the same frame, before the others get their turn.
RECEIVES_PER_TURN: Final = 8
# Each costs up to a millisecond: who comes in a crowd waits for the others' turn.
GREETINGS_PER_TURN: Final = 8
GREETING_S: Final = 10.0


@dataclass(slots=True, eq=False)
class _Connection:
    number: int
    transport: Transport
    peer: str  # its address
    fd: int  # what the loop is told: of a socket it would make a text to say that it is new
    listener: str
    unsent: deque[Piece] = field(default_factory=deque)
    reading: bool = False
    writing: bool = False
    closing: bool = False
    has_turn: bool = False  # is to be served on, as soon as the others had theirs
    will_read: bool = False  # the same for bytes left inside its transport
    greeting: asyncio.TimerHandle | None = None  # ends a handshake that takes too long


class Connections:
    """`perform` is told what the broker wants done; `reschedule`, that its next deadline may have
    come closer; `send_elsewhere` gets what is for a connection that was not accepted here; `left`,
    that there is one less."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        reporting: Reporting,
        *,
        perform: Callable[[Iterable[Effect]], None],
        reschedule: Callable[[], None],
        take_number: Callable[[], int],
        send_elsewhere: Callable[[int, list[Piece]], None],
        left: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._loop = loop
        self._reporting = reporting
        self._perform = perform
        self._reschedule = reschedule
        self._take_number = take_number
        self._send_elsewhere = send_elsewhere
        self._left = left
        self._all: dict[int, _Connection] = {}
        # The connection whose turn it is: its caller settles it.
        self._turn_of: int | None = None
        self._unsent = Unsent()
        self._greetings = 0

    def __len__(self) -> int:
        return len(self._all)

    def has_hung_up(self, number: int) -> bool:
        """Whether the other side has closed a connection, which only reading it would tell."""
        connection = self._all.get(number)
        if connection is None or connection.reading:
            return False
        poll = select.poll()
        poll.register(connection.fd, select.POLLRDHUP)
        return bool(poll.poll(0))

    # -- coming and going ---------------------------------------------------------------------

    def drop_all(self, keep_listeners: Collection[str] = ()) -> None:
        for connection in list(self._all.values()):
            if connection.listener not in keep_listeners:
                self._drop(connection)

    def adopt(self, listening: Listening, sock: socket.socket, peer: object) -> None:
        """A socket that was accepted."""
        prepare(sock, peer)
        number = self._take_number()
        address = ":".join(map(str, peer[:2])) if isinstance(peer, tuple) else "local"
        transport = listening.make_transport(sock)
        connection = _Connection(number, transport, address, sock.fileno(), listening.name)
        self._all[number] = connection
        self._perform(self._broker.connected(number, host_of(peer), listening.name))
        if number in self._all:
            if transport.wants_read:
                late = self._loop.call_later(GREETING_S, self._greeting_late, connection)
                connection.greeting = late
            self._watch(connection)

    def _drop(self, connection: _Connection) -> None:
        if self._all.pop(connection.number, None) is None:
            return
        self._unsent.left(connection.number, 0)
        if connection.reading:
            self._loop.remove_reader(connection.fd)
        if connection.writing:
            self._loop.remove_writer(connection.fd)
        if connection.greeting is not None:
            connection.greeting.cancel()
        connection.transport.close()
        self._perform(self._broker.disconnected(connection.number))
        self._left()

    def _lose(self, connection: _Connection, error: OSError) -> None:
        if connection.greeting is None:
            self._reporting.lost(connection.number, error)
        else:
            self._reporting.greeting_failed(connection.listener, connection.peer, error)
            host = connection.peer.rpartition(":")[0]
            self._broker.greeting_failed(connection.listener, host)
        self._drop(connection)

    # -- turns --------------------------------------------------------------------------------

    def _watch(self, connection: _Connection) -> None:
        """Reads while nothing waits to be sent, writes while something does."""
        transport = connection.transport
        takes_requests = self._takes_requests(connection)
        wants_read = takes_requests or transport.wants_read
        if wants_read != connection.reading:
            connection.reading = wants_read
            if wants_read:
                self._loop.add_reader(connection.fd, self._timed, self._readable, connection)
            else:
                self._loop.remove_reader(connection.fd)
        # Pieces that wait for the other side's part of a handshake do not wait for the socket.
        wants_write = transport.wants_write or (
            bool(connection.unsent) and not transport.wants_read
        )
        if wants_write != connection.writing:
            connection.writing = wants_write
            if wants_write:
                self._loop.add_writer(connection.fd, self._timed, self._writable, connection)
            else:
                self._loop.remove_writer(connection.fd)
        if takes_requests and transport.pending and not connection.will_read:
            # The socket may stay silent about what was received already.
            connection.will_read = True
            self._loop.call_soon(self._timed, self._read_pending, connection)

    def _takes_requests(self, connection: _Connection) -> bool:
        if connection.closing or connection.transport.wants_read:
            return False
        return self._has_all_left(connection) and self._broker.wants_read(connection.number)

    def _read_pending(self, connection: _Connection) -> None:
        connection.will_read = False
        if connection.number in self._all and self._takes_requests(connection):
            self._readable(connection)

    def _timed(self, turn: Callable[[_Connection], None], connection: _Connection) -> None:
        """A turn. While somebody has a quota of the loop's time, it is measured: receiving, serving
        and sending, and what a record layer does meanwhile."""
        if not self._broker.quotas.counts_time:
            turn(connection)
            return
        began_ns = time.perf_counter_ns()
        turn(connection)
        self._broker.turn_took(connection.number, time.perf_counter_ns() - began_ns)

    def _readable(self, connection: _Connection) -> None:
        transport = connection.transport
        if transport.wants_read:
            if not self._may_greet() or not self._advance(connection):
                return
            if not self._takes_requests(connection):
                self._settle(connection)
                return
        number = connection.number
        for _ in range(RECEIVES_PER_TURN):
            room = self._broker.room_for(number)
            if room is None:
                break
            try:
                count = transport.recv_into(room)
            except WOULD_BLOCK:
                break
            except OSError:
                count = 0
            if count == 0:
                self._drop(connection)
                break
            del room
            self._perform_for(connection, self._broker.received, count)
            if number not in self._all or not self._broker.expects_more(number):
                break
        self._settle(connection)

    def _writable(self, connection: _Connection) -> None:
        # The socket has room again, so the peer is reading: slow is not idle.
        self._broker.taking(connection.number)
        if connection.transport.wants_write and not self._advance(connection):
            return
        self._send_unsent(connection)
        self._settle(connection)

    def _advance(self, connection: _Connection) -> bool:
        """Whether the connection is still there."""
        try:
            connection.transport.advance()
        except OSError as error:
            self._lose(connection, error)
            return False
        if connection.greeting is not None and not connection.transport.wants_read:
            connection.greeting.cancel()
            connection.greeting = None
            certificate = connection.transport.certificate
            self._perform(self._broker.certified(connection.number, certificate))
        return connection.number in self._all

    def _may_greet(self) -> bool:
        """Whoever may not is called again at once: the socket still has something to read."""
        if self._greetings == GREETINGS_PER_TURN:
            return False
        if not self._greetings:
            self._loop.call_soon(self._next_greetings)
        self._greetings += 1
        return True

    def _next_greetings(self) -> None:
        self._greetings = 0

    def _greeting_late(self, connection: _Connection) -> None:
        self._lose(connection, TimeoutError(f"the handshake took longer than {GREETING_S:g} s"))

    def _settle(self, connection: _Connection) -> None:
        """Watches the socket; what was received ahead is served on in a turn of its own."""
        broker, number = self._broker, connection.number
        is_settled = (
            connection.reading
            and not connection.unsent
            and not connection.transport.is_busy
            and broker.wants_read(number)
        )
        if not is_settled and number in self._all:
            self._watch(connection)
            self._serve_soon(connection)
        if broker.may_be_due_sooner:
            self._reschedule()

    def _serve_soon(self, connection: _Connection) -> None:
        if connection.has_turn or not self._has_all_left(connection):
            return
        if self._broker.has_backlog(connection.number):
            connection.has_turn = True
            self._loop.call_soon(self._timed, self._take_turn, connection)

    def _take_turn(self, connection: _Connection) -> None:
        connection.has_turn = False
        if connection.number in self._all and self._has_all_left(connection):
            self._perform_for(connection, self._broker.sent)
            self._settle(connection)

    def _perform_for(
        self, connection: _Connection, ask: Callable[..., list[Effect]], *count: int
    ) -> None:
        """A border: a fault of ours costs the connection that met it, and no other.

        The caller settles the connection afterwards."""
        try:
            effects = ask(connection.number, *count)
        except Exception as error:  # noqa: BLE001
            self._fail(connection, error)
            return
        if not effects:
            return
        effect = effects[0]
        if (
            type(effect) is Send
            and effect.connection == connection.number
            and not connection.unsent
            and (len(effects) == 1 or type(effects[1]) is not Send)
        ):
            self._send_at_once(connection, effect.pieces)
            effects = effects[1:]
            if not effects:
                return
        before, self._turn_of = self._turn_of, connection.number
        try:
            self._perform(effects)
        except Exception as error:  # noqa: BLE001 - a `FollowUp` goes on with the request
            self._fail(connection, error)
        finally:
            self._turn_of = before

    def _fail(self, connection: _Connection, error: Exception) -> None:
        self._reporting.fault(f"request failed {type(error).__name__}", connection.peer)
        self._drop(connection)

    # -- sending ------------------------------------------------------------------------------

    def send(self, sends: list[Send]) -> None:
        """Answers of one connection leave together: a client that sent five requests at once is
        woken once, and sends the next five at once."""
        answered: dict[int, _Connection] = {}
        for number, pieces in sends:
            connection = self._all.get(number)
            if connection is None:
                self._send_elsewhere(number, pieces)
            elif not connection.closing:
                connection.unsent.extend(pieces)
                answered[number] = connection
        for number, connection in answered.items():
            self._send_unsent(connection)
            if number != self._turn_of and number in self._all:
                self._watch(connection)
                # Answered from another connection's turn, with more waiting behind it.
                self._serve_soon(connection)

    def close(self, effect: Close) -> None:
        connection = self._all.get(effect.connection)
        if connection is None:
            return
        self._reporting.closed(effect, connection.peer)
        connection.closing = True
        if effect.at_once or self._has_all_left(connection):
            self._drop(connection)
        else:
            self._watch(connection)

    def resume(self, effect: Resume) -> None:
        connection = self._all.get(effect.connection)
        if connection is not None:
            self._watch(connection)
            self._serve_soon(connection)

    def _send_at_once(self, connection: _Connection, pieces: list[Piece]) -> None:
        """Nearly always: one request was answered, and nothing else happened."""
        piece = pieces[0]
        if len(pieces) > 1 or type(piece) is not bytes or connection.closing:
            connection.unsent.extend(pieces)
            self._send_unsent(connection)
            return
        try:
            sent = connection.transport.send(piece)
        except WOULD_BLOCK:
            sent = 0
        except OSError as error:
            self._lose(connection, error)
            return
        if sent < len(piece):
            connection.unsent.append(memoryview(piece)[sent:])
            self._note_unsent(connection)
        elif connection.transport.is_busy:
            self._note_unsent(connection)

    def _send_unsent(self, connection: _Connection) -> None:
        try:
            send_unsent(connection.transport, connection.unsent)
        except OSError as error:
            self._lose(connection, error)
            return
        is_held = connection.unsent or connection.transport.wants_write
        if is_held or connection.number in self._unsent:
            self._note_unsent(connection)
        if connection.closing and self._has_all_left(connection):
            self._drop(connection)

    def _has_all_left(self, connection: _Connection) -> bool:
        return not connection.unsent and not connection.transport.wants_write

    def _note_unsent(self, connection: _Connection) -> None:
        held = held_bytes(connection.unsent) + connection.transport.held_bytes
        self._unsent.left(connection.number, held)
        if self._unsent.too_much() is not None:
            # In a turn of its own: this one may be in the middle of another connection's.
            self._loop.call_soon(self._shed)

    def _shed(self) -> None:
        while (number := self._unsent.too_much()) is not None:
            reason = f"{self._unsent.total_bytes} bytes of answers wait to be taken, most by it"
            self.close(Close(number, reason, at_once=True, kind="unsent"))
