"""A broker with its own event loop, in its own thread. Shell.

The test's own event loop is never touched: everything goes through `call`, which runs on the
broker's loop and returns the result. One `BrokerThread` is one life of a broker, from its start to
its stop or kill.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

from ledgerstone.clock import Clock
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.server.bootstrap import RunningBroker, start_broker
from ledgerstone.server.opening import Surroundings
from ledgerstone.server.transport import MakeTransport, PlainTransport
from ledgerstone.system import SystemDice
from ledgerstone.testing.disk import ScratchFilesystem
from ledgerstone.testing.worker_threads import ThreadedRuntime
from ledgerstone.web.access import Access
from ledgerstone.web.site import PageSite

_LOG: Final = logging.getLogger(__name__)

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
CALL_TIMEOUT_S: Final = 30.0

T = TypeVar("T")


class BrokerThread:
    """`start`, then any number of `call`s, then `stop` or `kill`."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        access: Access,
        dialled_transport: MakeTransport = PlainTransport,
    ) -> None:
        self._config = config
        self._dialled_transport = dialled_transport
        self._access = access
        self._fs = ScratchFilesystem()
        self._world = Surroundings(fs=self._fs, clock=clock, dice=SystemDice())
        self._started: Future[RunningBroker] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave: asyncio.Event | None = None
        self._is_killed = False
        name = f"ledgerstone-broker {config.log_dirs[0]}"
        # A daemon: a test torn down without stopping its broker must not hang forever.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> RunningBroker:
        self._thread.start()
        return self._started.result(START_TIMEOUT_S)

    @property
    def has_ended(self) -> bool:
        """Also by itself, where a process would have halted."""
        return self._ended.done()

    def call(self, ask: Callable[[RunningBroker], T]) -> T:
        """What `ask` returns, or raises, on the broker's loop."""
        assert self._loop is not None
        answer: Future[T] = Future()
        running = self._started.result(0)

        def run() -> None:
            try:
                answer.set_result(ask(running))
            except BaseException as error:  # noqa: BLE001 - a border: it is raised where it was asked
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return answer.result(CALL_TIMEOUT_S)

    def stop(self) -> None:
        """A clean stop: everything closed in order, a clean directory."""
        self._end()

    def kill(self) -> None:
        """As if its process had died: nothing is flushed, closed or saved first."""
        self._is_killed = True
        self._end()

    def _end(self) -> None:
        assert self._loop is not None
        assert self._leave is not None
        if not self._ended.done():
            self._loop.call_soon_threadsafe(self._leave.set)
        self._ended.result(STOP_TIMEOUT_S)
        self._thread.join(STOP_TIMEOUT_S)

    # -- in the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # noqa: BLE001 - a border: it is raised where it was asked
            failed = self._started if not self._started.done() else self._ended
            failed.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._leave = asyncio.Event()
        running = await start_broker(
            self._config,
            self._world,
            partial(PageSite, self._access),
            partial(ThreadedRuntime, dialled_transport=self._dialled_transport, halt=self._halted),
        )
        self._started.set_result(running)
        await self._leave.wait()
        if self._is_killed:
            await self._die(running)
        else:
            await running.stop()

    def _halted(self, reason: str) -> None:
        """A process would end here. This one is the test's: only the broker dies."""
        _LOG.critical("broker halts reason=%s", reason)
        self._is_killed = True
        self._fs.die()
        assert self._leave is not None
        self._leave.set()

    async def _die(self, running: RunningBroker) -> None:
        """Closes sockets, as the system does for a dead process, but not the logs."""
        self._fs.die()
        await running.runtime.stop()
        if running.http is not None:
            await running.http.stop()
        running.broker.log_dirs.release()
        if running.broker.auditor is not None:
            running.broker.auditor.release()
