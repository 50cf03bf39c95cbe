"""The broker in the world: asyncio as an adapter. Grade S.

The hands that perform effects: on connections (`connections`, `dialling`), in threads, in worker
processes. One timer wakes the broker at its next deadline.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from ledgerstone.fs import Filesystem
from ledgerstone.server.accepting import Accepting, Listening
from ledgerstone.server.broker import Broker
from ledgerstone.server.connections import Connections
from ledgerstone.server.dialling import Dialling
from ledgerstone.server.effects import (
    AskVerifier,
    Close,
    Dial,
    Effect,
    Halt,
    Hangup,
    Persist,
    Resume,
    Send,
    Unlink,
    WriteSnapshot,
)
from ledgerstone.server.erasing.verifiers import Verifiers
from ledgerstone.server.performer import Performer, Synced
from ledgerstone.server.quorum.snapshot_writing import write_snapshot
from ledgerstone.server.reporting import Reporting
from ledgerstone.server.results import (
    DialFailed,
    Dialled,
    Done,
    Failed,
    Result,
    VerifierFailed,
    VerifierSaid,
)
from ledgerstone.server.transport import MakeTransport, PlainTransport, Transport
from ledgerstone.server.workers import WorkerEffect, WorkerRoom
from ledgerstone.storage.deleted_files import unlink_all
from ledgerstone.storage.sync_plan import sync_all

_LOG: Final = logging.getLogger(__name__)


# How often files of keys and certificates are looked at.
TLS_LOOK_S: Final = 10.0


class Rereadable(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def failure(self) -> str | None: ...

    def read_again(self) -> None: ...


class Secured(Protocol):
    """The TLS of a broker: `tls_contexts`, which a plain one does without."""

    def dialled(self, sock: socket.socket, dial: Dial) -> Transport | None: ...

    def changed(self) -> Sequence[Rereadable]: ...


def halt_process(reason: str) -> None:
    """Without another word to anyone: nothing is flushed but the log lines."""
    _LOG.critical("process halts reason=%s", reason)
    logging.shutdown()
    os._exit(1)


class Runtime:
    """`performer.Hands`. `start`, then `stop`. `dialled_transport` is for connections we open."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        dialled_transport: MakeTransport = PlainTransport,
        halt: Callable[[str], None] = halt_process,
    ) -> None:
        self._broker = broker
        self._loop = loop
        self._halt = halt
        self._next_number = 1
        self._timer: asyncio.TimerHandle | None = None
        self._in_threads: set[asyncio.Future[None]] = set()
        # For plans that are performed in threads.
        self.fs: Filesystem = broker.log_dir.fs
        self._performer = Performer(self, broker.completed)
        self._reporting = Reporting(broker.clock.monotonic_ms)
        self._dialling = Dialling(loop, self, self._take_number, dialled_transport)
        self._connections = Connections(
            broker,
            loop,
            self._reporting,
            perform=self._performer.perform,
            reschedule=self._reschedule,
            take_number=self._take_number,
            send_elsewhere=self._dialling.send,
            left=self._someone_left,
        )
        self._accepting = Accepting(loop, self._reporting, self._connections.adopt, broker)
        broker.peers.has_hung_up = self._connections.has_hung_up
        # In a turn of its own: limits change in the middle of another one.
        broker.peers.on_room = lambda: loop.call_soon(self._accepting.someone_left)
        self._workers = WorkerRoom(self._report)
        self.verifiers = Verifiers()
        self._secured: Secured | None = None
        self._tls_look: asyncio.TimerHandle | None = None
        # Hears of each listener whose files were read again, and what was wrong with them.
        self.on_tls_read: Callable[[str, str | None], None] | None = None

    def _someone_left(self) -> None:
        self._accepting.someone_left()

    # -- start and stop -----------------------------------------------------------------------

    def start(self, listeners: Iterable[Listening]) -> None:
        """Again with more listeners, as a start gets further."""
        for listening in listeners:
            self._accepting.start(listening)
        self._reschedule()

    async def stop(self) -> None:
        """No new connections; cleaning ends where it is; what is being synced or
        unlinked finishes; connections close."""
        self._accepting.stop()
        self._perform(self._broker.stop_cleaning())
        await self._workers.stop()
        await self._dialling.stop()
        while self._in_threads:
            await asyncio.wait(self._in_threads)
        for timer in (self._timer, self._tls_look):
            if timer is not None:
                timer.cancel()
        self._connections.drop_all()
        self._reporting.leftovers(is_last=True)

    def secure(self, secured: Secured) -> None:
        """From now on, connections to other nodes; and files that change are read again."""
        self._secured = secured
        self._dialling.secured = secured.dialled
        self._tls_look = self._loop.call_later(TLS_LOOK_S, self.look_at_tls)

    def look_at_tls(self) -> None:
        assert self._secured is not None
        if self._tls_look is not None:
            self._tls_look.cancel()
        changed = self._secured.changed()
        if changed:
            self._off_the_loop(self._read_again(changed))
        self._tls_look = self._loop.call_later(TLS_LOOK_S, self.look_at_tls)

    async def _read_again(self, changed: Sequence[Rereadable]) -> None:
        for each in changed:
            await self._loop.run_in_executor(None, each.read_again)
            if self.on_tls_read is not None:
                self.on_tls_read(each.name, each.failure)
                self._reschedule()

    def stop_clients(self) -> None:
        """Closes the listeners of clients and their connections; those of controllers stay."""
        names = self._broker.config.cluster.controller_listener_names
        self._accepting.stop(keep=names)
        self._connections.drop_all(keep_listeners=names)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def _take_number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    # -- effects: `performer.Hands` -----------------------------------------------------------

    def _perform(self, effects: Iterable[Effect]) -> None:
        self._performer.perform(effects)

    def _report(self, effect: Effect, result: Result) -> None:
        self._performer.report(effect, result)
        self._reschedule()

    def send(self, sends: list[Send]) -> None:
        self._connections.send(sends)

    def close(self, effect: Close) -> None:
        self._connections.close(effect)

    def resume(self, effect: Resume) -> None:
        self._connections.resume(effect)

    def dial(self, effect: Dial) -> None:
        self._dialling.dial(effect)

    def hang_up(self, effect: Hangup) -> None:
        self._dialling.hang_up(effect.connection)

    def persist(self, effect: Persist, synced: Synced) -> None:
        self._off_the_loop(self._persist(effect, synced))

    def unlink(self, effect: Unlink) -> None:
        self._off_the_loop(self._unlink(effect))

    def write_snapshot(self, effect: WriteSnapshot) -> None:
        self._off_the_loop(self._write_snapshot(effect))

    def halt(self, effect: Halt) -> None:
        self._halt(effect.reason)

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

    async def _write_snapshot(self, effect: WriteSnapshot) -> None:
        result: Done | Failed = Done()
        try:
            await self._loop.run_in_executor(None, write_snapshot, self.fs, effect.work)
        except OSError as error:
            result = Failed(error)
        self._report(effect, result)

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
        self._reschedule()

    def received_from_dialled(self, dial: Dial, number: int, data: memoryview) -> None:
        self._took(dial, number, partial(self._broker.received_from_dialled, dial, number, data))

    def room_for_dialled(self, dial: Dial, number: int) -> memoryview | None:
        return self._broker.room_for_dialled(dial, number)

    def filled_dialled(self, dial: Dial, number: int, count: int) -> None:
        self._took(dial, number, partial(self._broker.filled_dialled, dial, number, count))

    def _took(self, dial: Dial, number: int, ask: Callable[[], list[Effect]]) -> None:
        if not self._guarded(dial, ask):
            self._dialling.lose(number, "its bytes could not be taken")
        elif self._broker.may_be_due_sooner_after(dial):
            self._reschedule()

    def lost_dialled(self, dial: Dial, number: int, reason: str) -> None:
        self._guarded(dial, partial(self._broker.lost_dialled, dial, number, reason))
        self._reschedule()

    def _guarded(self, dial: Dial, ask: Callable[[], list[Effect]]) -> bool:
        """A border: a fault of ours costs the connection that met it, and no other."""
        try:
            self._perform(ask())
        except Exception as error:  # noqa: BLE001
            kind = f"dialled connection failed {type(error).__name__}"
            self._reporting.fault(kind, f"{dial.host}:{dial.port}")
            return False
        return True

    # -- time ---------------------------------------------------------------------------------

    def wake(self) -> None:
        """Somebody else has told the broker something: who waited for it is served, and the next
        deadline may have come closer."""
        self._perform(self._broker.changed_from_outside())
        self._reschedule()

    def _reschedule(self) -> None:
        """One timer, for the broker's next deadline; moved only when that comes earlier."""
        broker = self._broker
        broker.may_be_due_sooner = False
        due_ms = broker.next_deadline_ms
        due = self._loop.time() + max(due_ms - broker.clock.monotonic_ms(), 0) / 1000
        if self._timer is not None:
            if not self._timer.cancelled() and self._timer.when() <= due + 0.0005:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._tick)
        broker.wakes_ms = due_ms

    def _tick(self) -> None:
        self._timer = None
        try:
            self._perform(self._broker.tick())
        except Exception as error:  # noqa: BLE001 - a border: else nothing ever times out again
            self._reporting.fault(f"tick failed {type(error).__name__}", "none")
        self._reporting.leftovers()
        self._reschedule()
