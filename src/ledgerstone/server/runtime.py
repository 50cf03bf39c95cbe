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
from typing import Final, assert_never

from ledgerstone.cleaner.plan import CleanedGroup, PassReport
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import (
    Analyse,
    AskVerifier,
    Clean,
    Close,
    Effect,
    Flush,
    GiveUp,
    Proceed,
    Resume,
    Scan,
    Send,
    SyncSwap,
    Unlink,
)
from ledgerstone.server.erasing.scans import ScanResult
from ledgerstone.server.erasing.verifiers import Verifiers
from ledgerstone.server.sending import WOULD_BLOCK, held_bytes, prepare, send_unsent
from ledgerstone.server.throttle import INTERVAL_MS, Throttle, shown
from ledgerstone.server.unsent import Unsent
from ledgerstone.server.workers import Tell, WorkerRoom
from ledgerstone.state.anatomy_plan import AnatomyReport

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
    """Owns the sockets and performs effects. `start`, then `stop`."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._listeners: list[socket.socket] = []
        self._connections: dict[int, _Connection] = {}
        self._next_number = 1
        self._timer: asyncio.TimerHandle | None = None
        self._flushes: set[asyncio.Future[None]] = set()
        self._workers = WorkerRoom(self._tell())
        self.verifiers = Verifiers()
        self._throttle = Throttle()
        self._unsent = Unsent()

    def _tell(self) -> Tell:
        return Tell(
            cleaning_goes_on=self._broker.cleaning_goes_on,
            group_cleaned=self._group_cleaned,
            cleaning_ended=self._cleaning_ended,
            scan_goes_on=self._scan_goes_on,
            scan_ended=self._scan_ended,
            analysis_goes_on=self._analysis_goes_on,
            analysed=self._analysed,
        )

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
        while self._flushes:
            await asyncio.wait(self._flushes)
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
        number = self._next_number
        self._next_number += 1
        address = ":".join(map(str, peer[:2])) if isinstance(peer, tuple) else "local"
        connection = _Connection(number, sock, address, sock.fileno())
        self._connections[number] = connection
        host = peer[0] if isinstance(peer, tuple) else "local"
        self._perform(self._broker.connected(number, host))
        if number in self._connections:
            self._watch(connection)

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
            self._close(Close(number, reason, at_once=True, kind="unsent"))

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

    # -- effects ------------------------------------------------------------------------------

    def _perform(self, effects: Iterable[Effect], *, turn_of: int | None = None) -> None:
        """`turn_of` is the connection that the caller settles itself.

        Answers leave last, so that those of one connection leave together: who sent five requests
        at once is woken once, and sends the next five at once."""
        answered: dict[int, _Connection] = {}
        for effect in effects:
            match effect:
                case Send():
                    self._enqueue(effect, answered)
                case Close():
                    self._close(effect)
                case Resume():
                    self._resume(effect)
                case Flush():
                    self._sync(self._perform_flush(effect))
                case Unlink():
                    self._sync(self._perform_unlink(effect))
                case SyncSwap():
                    self._sync(self._perform_swap_sync(effect))
                case AskVerifier():
                    self._sync(self._ask_verifier(effect))
                case Clean() | Proceed() | GiveUp() | Scan() | Analyse():
                    self._workers.perform(effect)
                case _:
                    assert_never(effect)
        for number, connection in answered.items():
            self._send_unsent(connection)
            if number != turn_of and number in self._connections:
                self._watch(connection)
                # Answered from another connection's turn, with more waiting behind it.
                self._serve_soon(connection)

    def _enqueue(self, effect: Send, answered: dict[int, _Connection]) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None and not connection.closing:
            connection.unsent.extend(effect.pieces)
            answered[effect.connection] = connection

    def _close(self, effect: Close) -> None:
        connection = self._connections.get(effect.connection)
        if connection is None:
            return
        self._tell_closed(connection, effect)
        connection.closing = True
        if connection.unsent and not effect.at_once:
            self._watch(connection)
        else:
            self._drop(connection)

    def _resume(self, effect: Resume) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            self._watch(connection)

    def _sync(self, work: Coroutine[None, None, None]) -> None:
        future = asyncio.ensure_future(work)
        self._flushes.add(future)
        future.add_done_callback(self._flushes.discard)

    async def _perform_flush(self, effect: Flush) -> None:
        failure = await self._off_the_loop(effect.plan.perform)
        self._perform(self._broker.completed(effect, failure))
        self._reschedule()

    async def _perform_unlink(self, effect: Unlink) -> None:
        failure = await self._off_the_loop(effect.plan.perform)
        self._perform(self._broker.unlinked(effect, failure))
        self._reschedule()

    async def _perform_swap_sync(self, effect: SyncSwap) -> None:
        failure = await self._off_the_loop(effect.perform)
        self._perform(self._broker.swap_synced(effect, failure))
        self._reschedule()

    async def _off_the_loop(self, sync: Callable[[], None]) -> OSError | None:
        try:
            await self._loop.run_in_executor(None, sync)
        except OSError as error:
            return error
        return None

    def _group_cleaned(self, number: int, group: CleanedGroup) -> None:
        self._perform(self._broker.group_cleaned(number, group))
        self._reschedule()

    def _cleaning_ended(self, number: int, outcome: PassReport | PassFailed) -> None:
        self._perform(self._broker.cleaning_ended(number, outcome))
        self._reschedule()

    def _scan_goes_on(self, number: int) -> None:
        self._broker.scan_goes_on(number)
        self._reschedule()

    def _scan_ended(self, number: int, result: ScanResult) -> None:
        self._perform(self._broker.scan_ended(number, result))
        self._reschedule()

    def _analysis_goes_on(self, number: int) -> None:
        self._broker.analysis_goes_on(number)
        self._reschedule()

    def _analysed(self, number: int, result: AnatomyReport | str) -> None:
        self._perform(self._broker.analysed(number, result))
        self._reschedule()

    async def _ask_verifier(self, effect: AskVerifier) -> None:
        words = await self._loop.run_in_executor(None, self.verifiers.ask, effect)
        self._perform(self._broker.verifier_spoke(effect, words))
        self._reschedule()

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
