"""Cleaning passes and scans in threads of this process instead of worker processes. Shell.

Starting a worker process costs a third of a second of CPU for every test, while a pass over a
test's data takes a few milliseconds. The code is that of the workers, and so is
the conversation. A real broker does not use
this: there a pass must not share the interpreter.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable

from ledgerstone.fs import Filesystem
from ledgerstone.server.broker import Broker
from ledgerstone.server.effects import WorkerName
from ledgerstone.server.runtime import Runtime, halt_process
from ledgerstone.server.transport import MakeTransport, PlainTransport
from ledgerstone.server.workers import WorkerRoom
from ledgerstone.workers.child import Line, OwnerGone, Work, serve
from ledgerstone.workers.frames import LENGTH_BYTES, Message, decode, encode
from ledgerstone.workers.process import Worker


class _QueueLine(Line):
    """The worker's end. Messages travel as frames, as they do through a pipe; None is the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.to_worker: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.to_owner: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.is_closed = False
        self._loop = loop

    def receive(self) -> Message:
        frame = self.to_worker.get()
        if frame is None or self.is_closed:
            raise OwnerGone
        return decode(frame[LENGTH_BYTES:])

    def has_message(self) -> bool:
        return not self.to_worker.empty()

    def _send(self, message: Message) -> None:
        self._loop.call_soon_threadsafe(self.to_owner.put_nowait, encode(message))

    def close(self) -> None:
        self.is_closed = True
        self.to_worker.put(None)


class ThreadWorker:
    """The owner's end. The thread imports what it works with: many tests never clean, and a start
    must not wait for it."""

    def __init__(self, find_work: Callable[[], Work]) -> None:
        self._loop = asyncio.get_running_loop()
        self._line = _QueueLine(self._loop)
        self._find_work = find_work
        self._ended = self._loop.create_future()
        threading.Thread(target=self._live, daemon=True).start()

    def _live(self) -> None:
        try:
            with contextlib.suppress(OwnerGone):
                serve(self._line, self._find_work())
        finally:
            # Whatever it dies of: its owner would wait for it for ever.
            self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        self._line.to_owner.put_nowait(None)
        self._ended.set_result(None)

    def send(self, message: Message) -> None:
        self._line.to_worker.put(encode(message))

    async def receive(self) -> Message:
        frame = await self._line.to_owner.get()
        if frame is None:
            raise EOFError
        return decode(frame[LENGTH_BYTES:])

    def kill(self) -> None:
        """A thread cannot be killed: it ends when it next asks whether to go on."""
        self._line.close()

    async def end(self) -> int:
        self._line.close()
        await self._ended
        return 0


def _cleaning(fs: Filesystem) -> Work:
    from ledgerstone.cleaner.worker import work_on

    return work_on(fs)


def _scanning() -> Work:
    from ledgerstone.erasure.worker import work

    return work


class ThreadedRuntime(Runtime):
    """The real runtime, except for where passes and scans run."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        dialled_transport: MakeTransport = PlainTransport,
        halt: Callable[[str], None] = halt_process,
    ) -> None:
        super().__init__(broker, loop, dialled_transport, halt)

        async def cleaner() -> Worker:
            return ThreadWorker(lambda: _cleaning(broker.log_dir.fs))

        async def scanner() -> Worker:
            return ThreadWorker(_scanning)

        starts = {WorkerName.CLEANING: cleaner, WorkerName.SCANNING: scanner}
        self._workers = WorkerRoom(self._report, starts)
