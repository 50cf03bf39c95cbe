"""The broker on sockets: asyncio as an adapter. Grade S; the only place that knows a loop.

Raw non-blocking sockets on add_reader and add_writer. Bytes are received where the broker says,
answers leave in the same turn where the socket takes them; how, is in `sending`. Of back-pressure:
a connection whose answer has not left yet is not read, so nobody can make the broker hold more than
one answer for them.
"""

import asyncio
import errno
import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ledgerstone.fs import Filesystem
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server.broker import Broker
from ledgerstone.server.dialling import Dialling
from ledgerstone.server.effects import (
    AskVerifier,
    Close,
    Dial,
    Effect,
    Hangup,
    Persist,
    Resume,
    Send,
    Unlink,
)
from ledgerstone.server.erasing.verifiers import Verifiers
from ledgerstone.server.performer import Performer, Synced
from ledgerstone.server.results import (
    DialFailed,
    Dialled,
    Done,
    Failed,
    Result,
    VerifierFailed,
    VerifierSaid,
)
from ledgerstone.server.sending import WOULD_BLOCK, held_bytes, prepare, send_unsent
from ledgerstone.server.throttle import INTERVAL_MS, Throttle, shown
from ledgerstone.server.unsent import Unsent
from ledgerstone.server.workers import WorkerEffect, WorkerRoom
from ledgerstone.storage.deleted_files import unlink_all
from ledgerstone.storage.sync_plan import sync_all

_LOG: Final = logging.getLogger(__name__)

# Receives for one connection, while they add to the same frame, before the others get their turn.
RECEIVES_PER_TURN: Final = 8
ACCEPTS_PER_TURN: Final = 64
# Accepting stops for this long when the process has no descriptor left.
ACCEPT_PAUSE_S: Final = 0.2


@dataclass(slots=True, eq=False)
class _Connection:
    number: int
    sock: socket.socket
    peer: str  # its address
    fd: int  # what the loop is told: of a socket it would make a text to say that it is new
    unsent: deque[Piece] = field(default_factory=deque)
    reading: bool = False
    writing: bool = False
    closing: bool = False
    has_turn: bool = False  # is to be served on, as soon as the others had theirs


class Runtime:
    """Owns the sockets; the hands that perform effects. `start`, then `stop`."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._listeners: list[socket.socket] = []
        self._connections: dict[int, _Connection] = {}
        self._next_number = 1
        self._timer: asyncio.TimerHandle | None = None
        self._in_threads: set[asyncio.Future[None]] = set()
        # For plans that are performed in threads.
        self.fs: Filesystem = broker.log_dir.fs
        self._performer = Performer(self, broker.completed)
        self._turn_of: int | None = None
        self._dialling = Dialling(loop, self, self._take_number)
        self._workers = WorkerRoom(self._report)
        self.verifiers = Verifiers()
        self._throttle = Throttle()
        self._unsent = Unsent()

    # -- start and stop -----------------------------------------------------------------------

    def start(self, listeners: Iterable[socket.socket]) -> None:
        for listener in listeners:
            listener.setblocking(False)
            self._listeners.append(listener)
            self._loop.add_reader(listener, self._accept, listener)
        self._reschedule()

    async def stop(self) -> None:
        """No new connections; cleaning ends where it is; what is being synced or
        unlinked finishes; connections close."""
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        self._perform(self._broker.stop_cleaning())
        await self._workers.stop()
        await self._dialling.stop()
        while self._in_threads:
            await asyncio.wait(self._in_threads)
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._connections.values()):
            self._drop(connection)
        for kind, suppressed in self._throttle.leftovers(self._now_ms() + INTERVAL_MS):
            _LOG.info("%s suppressed=%d", kind, suppressed)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    # -- connections --------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, peer = listener.accept()
            except WOULD_BLOCK:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    suppressed = self._throttle.admit("accept paused", self._now_ms())
                    if suppressed is not None:
                        _LOG.warning("accept paused reason=%s suppressed=%d", error, suppressed)
                    self._loop.remove_reader(listener)
                    self._loop.call_later(ACCEPT_PAUSE_S, self._resume_accept, listener)
                return
            self._adopt(sock, peer)

    def _resume_accept(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            self._loop.add_reader(listener, self._accept, listener)

    def _adopt(self, sock: socket.socket, peer: object) -> None:
        prepare(sock, peer)
        number = self._take_number()
        address = ":".join(map(str, peer[:2])) if isinstance(peer, tuple) else "local"
        connection = _Connection(number, sock, address, sock.fileno())
        self._connections[number] = connection
        host = peer[0] if isinstance(peer, tuple) else "local"
        self._perform(self._broker.connected(number, host))
        if number in self._connections:
            self._watch(connection)

    def _take_number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    def _watch(self, connection: _Connection) -> None:
        """Reads while nothing waits to be sent, writes while something does."""
        wants_read = (
            not connection.unsent
            and not connection.closing
            and self._broker.wants_read(connection.number)
        )
        if wants_read != connection.reading:
            connection.reading = wants_read
            if wants_read:
                self._loop.add_reader(connection.fd, self._readable, connection)
            else:
                self._loop.remove_reader(connection.fd)
        wants_write = bool(connection.unsent)
        if wants_write != connection.writing:
            connection.writing = wants_write
            if wants_write:
                self._loop.add_writer(connection.fd, self._writable, connection)
            else:
                self._loop.remove_writer(connection.fd)

    def _readable(self, connection: _Connection) -> None:
        number = connection.number
        for _ in range(RECEIVES_PER_TURN):
            room = self._broker.room_for(number)
            if room is None:
                break
            try:
                count = connection.sock.recv_into(room)
            except WOULD_BLOCK:
                break
            except OSError:
                count = 0
            if count == 0:
                self._drop(connection)
                break
            del room
            self._perform_for(connection, self._broker.received, count)
            if number not in self._connections or not self._broker.expects_more(number):
                break
        self._settle(connection)

    def _writable(self, connection: _Connection) -> None:
        # The socket has room again, so the peer is reading: slow is not idle.
        self._broker.taking(connection.number)
        self._send_unsent(connection)
        self._settle(connection)

    def _settle(self, connection: _Connection) -> None:
        """Watches the socket; what was received ahead is served on in a turn of its own."""
        broker, number = self._broker, connection.number
        is_settled = connection.reading and not connection.unsent and broker.wants_read(number)
        if not is_settled and number in self._connections:
            self._watch(connection)
            self._serve_soon(connection)
        if broker.may_be_due_sooner:
            self._reschedule()

    def _serve_soon(self, connection: _Connection) -> None:
        has_backlog = not connection.unsent and self._broker.has_backlog(connection.number)
        if has_backlog and not connection.has_turn:
            connection.has_turn = True
            self._loop.call_soon(self._take_turn, connection)

    def _take_turn(self, connection: _Connection) -> None:
        connection.has_turn = False
        if connection.number in self._connections and not connection.unsent:
            self._perform_for(connection, self._broker.sent)
            self._settle(connection)

    def _perform_for(
        self, connection: _Connection, ask: Callable[..., list[Effect]], *count: int
    ) -> None:
        """A border: a fault of ours costs the connection that met it, and nobody else.

        The caller settles the connection afterwards."""
        try:
            effects = ask(connection.number, *count)
        except Exception as error:  # noqa: BLE001
            self._tell_fault(f"request failed {type(error).__name__}", connection.peer)
            self._drop(connection)
            return
        if not effects:
            return
        if len(effects) == 1 and not connection.unsent:
            effect = effects[0]
            if type(effect) is Send and effect.connection == connection.number:
                self._send_at_once(connection, effect.pieces)
                return
        self._perform(effects, turn_of=connection.number)

    def _send_at_once(self, connection: _Connection, pieces: list[Piece]) -> None:
        """Nearly always: one request was answered, and nothing else happened."""
        piece = pieces[0]
        if len(pieces) > 1 or type(piece) is not bytes or connection.closing:
            connection.unsent.extend(pieces)
            self._send_unsent(connection)
            return
        try:
            sent = connection.sock.send(piece)
        except WOULD_BLOCK:
            sent = 0
        except OSError as error:
            self._lose(connection, error)
            return
        if sent < len(piece):
            connection.unsent.append(memoryview(piece)[sent:])
            self._note_unsent(connection)

    def _send_unsent(self, connection: _Connection) -> None:
        try:
            send_unsent(connection.sock, connection.unsent)
        except OSError as error:
            self._lose(connection, error)
            return
        if connection.unsent or connection.number in self._unsent:
            self._note_unsent(connection)
        if connection.closing and not connection.unsent:
            self._drop(connection)

    def _note_unsent(self, connection: _Connection) -> None:
        self._unsent.left(connection.number, held_bytes(connection.unsent))
        if self._unsent.too_much() is not None:
            # In a turn of its own: this one may be in the middle of another connection's.
            self._loop.call_soon(self._shed)

    def _shed(self) -> None:
        while (number := self._unsent.too_much()) is not None:
            reason = f"{self._unsent.total_bytes} bytes of answers wait to be taken, most by it"
            self.close(Close(number, reason, at_once=True, kind="unsent"))

    def _lose(self, connection: _Connection, error: OSError) -> None:
        _LOG.debug("connection lost connection=%d reason=%s", connection.number, error)
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        if self._connections.pop(connection.number, None) is None:
            return
        self._unsent.left(connection.number, 0)
        if connection.reading:
            self._loop.remove_reader(connection.fd)
        if connection.writing:
            self._loop.remove_writer(connection.fd)
        connection.sock.close()
        self._perform(self._broker.disconnected(connection.number))

    # -- effects: `performer.Hands` -----------------------------------------------------------

    def _perform(self, effects: Iterable[Effect], *, turn_of: int | None = None) -> None:
        """`turn_of` is the connection that the caller settles itself."""
        before, self._turn_of = self._turn_of, turn_of
        try:
            self._performer.perform(effects)
        finally:
            self._turn_of = before

    def _report(self, effect: Effect, result: Result) -> None:
        self._performer.report(effect, result)
        self._reschedule()

    def send(self, sends: list[Send]) -> None:
        """Answers of one connection leave together: a client that sent five requests at once is
        woken once, and sends the next five at once."""
        answered: dict[int, _Connection] = {}
        for number, pieces in sends:
            connection = self._connections.get(number)
            if connection is None:
                self._dialling.send(number, pieces)
            elif not connection.closing:
                connection.unsent.extend(pieces)
                answered[number] = connection
        for number, connection in answered.items():
            self._send_unsent(connection)
            if number != self._turn_of and number in self._connections:
                self._watch(connection)
                # Answered from another connection's turn, with more waiting behind it.
                self._serve_soon(connection)

    def close(self, effect: Close) -> None:
        connection = self._connections.get(effect.connection)
        if connection is None:
            return
        self._tell_closed(connection, effect)
        connection.closing = True
        if connection.unsent and not effect.at_once:
            self._watch(connection)
        else:
            self._drop(connection)

    def resume(self, effect: Resume) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            self._watch(connection)

    def dial(self, effect: Dial) -> None:
        self._dialling.dial(effect)

    def hang_up(self, effect: Hangup) -> None:
        self._dialling.hang_up(effect.connection)

    def persist(self, effect: Persist, synced: Synced) -> None:
        self._off_the_loop(self._persist(effect, synced))

    def unlink(self, effect: Unlink) -> None:
        self._off_the_loop(self._unlink(effect))

    def _hand_to_worker(self, effect: WorkerEffect) -> None:
        self._workers.perform(effect)

    clean = proceed = give_up = scan = analyse = _hand_to_worker

    def ask_verifier(self, effect: AskVerifier) -> None:
        self._off_the_loop(self._ask_verifier(effect))

    # -- what comes of them -------------------------------------------------------------------

    def _off_the_loop(self, work: Coroutine[None, None, None]) -> None:
        future = asyncio.ensure_future(work)
        self._in_threads.add(future)
        future.add_done_callback(self._in_threads.discard)

    async def _persist(self, effect: Persist, synced: Synced) -> None:
        result: Done | Failed = Done()
        try:
            await self._loop.run_in_executor(None, sync_all, self.fs, effect.syncs)
        except OSError as error:
            result = Failed(error)
        synced(result)
        self._reschedule()

    async def _unlink(self, effect: Unlink) -> None:
        result = await self._loop.run_in_executor(None, unlink_all, self.fs, effect.plan)
        self._report(effect, result)

    async def _ask_verifier(self, effect: AskVerifier) -> None:
        said = await self._loop.run_in_executor(None, self.verifiers.ask, effect)
        if isinstance(said, str):
            self._report(effect, VerifierFailed(said))
        else:
            self._report(effect, VerifierSaid(tuple(said)))

    # -- connections we opened ----------------------------------------------------------------

    def dial_ended(self, dial: Dial, result: Dialled | DialFailed) -> None:
        self._guarded(dial, partial(self._broker.completed, dial, result))

    def received_from_dialled(self, dial: Dial, number: int, data: memoryview) -> None:
        ask = partial(self._broker.received_from_dialled, dial, number, data)
        if not self._guarded(dial, ask):
            self._dialling.lose(number, "its bytes could not be taken")

    def lost_dialled(self, dial: Dial, number: int, reason: str) -> None:
        self._guarded(dial, partial(self._broker.lost_dialled, dial, number, reason))

    def _guarded(self, dial: Dial, ask: Callable[[], list[Effect]]) -> bool:
        """A border, as `_perform_for` is."""
        try:
            self._perform(ask())
        except Exception as error:  # noqa: BLE001
            kind = f"dialled connection failed {type(error).__name__}"
            self._tell_fault(kind, f"{dial.host}:{dial.port}")
            return False
        self._reschedule()
        return True

    # -- time ---------------------------------------------------------------------------------

    def wake(self) -> None:
        """Somebody else has told the broker something: who waited for it is served, and the next
        deadline may have come closer."""
        self._perform(self._broker.changed_from_outside())
        self._reschedule()

    def _reschedule(self) -> None:
        """One timer, for the broker's next deadline; moved only when that comes earlier."""
        self._broker.may_be_due_sooner = False
        delay_s = max(self._broker.next_deadline_ms - self._broker.clock.monotonic_ms(), 0) / 1000
        due = self._loop.time() + delay_s
        if self._timer is not None:
            if not self._timer.cancelled() and self._timer.when() <= due + 0.0005:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self._perform(self._broker.tick())
        except Exception as error:  # noqa: BLE001 - a border: else nothing ever times out again
            self._tell_fault(f"tick failed {type(error).__name__}", "none")
        for kind, suppressed in self._throttle.leftovers(self._now_ms()):
            _LOG.info("%s suppressed=%d", kind, suppressed)
        self._reschedule()

    # -- telling ------------------------------------------------------------------------------

    def _tell_closed(self, connection: _Connection, effect: Close) -> None:
        """Whoever can connect can be closed, as often as they like: one line a minute a kind."""
        kind = f"connection closed kind={effect.kind}"
        suppressed = self._throttle.admit(kind, self._now_ms())
        if suppressed is not None:
            _LOG.info(
                "%s connection=%d peer=%s reason=%s suppressed=%d",
                kind, connection.number, connection.peer, shown(effect.reason), suppressed,
            )  # fmt: skip

    def _tell_fault(self, kind: str, peer: str) -> None:
        """In an except clause. The first of a minute with all that is known of it."""
        suppressed = self._throttle.admit(kind, self._now_ms())
        if suppressed is not None:
            _LOG.exception("%s peer=%s suppressed=%d", kind, peer, suppressed)

    def _now_ms(self) -> int:
        return self._broker.clock.monotonic_ms()
