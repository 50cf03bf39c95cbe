"""Worker processes for cleaning passes, as the runtime uses them. Shell.

One process per pass at work; one that is done waits a while for the next pass and is then let go,
so that a broker without compacted topics has none. A worker that dies costs its pass. A pass has
not ended before its worker has: a dead one writes nothing any more, a stopped one might.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Final

from ledgerstone.cleaner.messages import (
    LENGTH_BYTES,
    Message,
    body_size,
    decode,
    encode,
    group_of,
    plan_message,
    report_of,
)
from ledgerstone.cleaner.plan import CleanedGroup, PassReport
from ledgerstone.server import worker_process
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import Clean, GiveUp, Proceed

_LOG: Final = logging.getLogger(__name__)
IDLE_S: Final = 30.0
# What an idle worker gets to end by itself.
END_S: Final = 2.0
_STOPPING: Final = "the broker stops"
_MODULE: Final = "ledgerstone.cleaner.worker"

TellProgress = Callable[[int], None]
TellGroup = Callable[[int, CleanedGroup], None]
TellEnd = Callable[[int, PassReport | PassFailed], None]


class _Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._input = process.stdin
        self._output = process.stdout
        self.retirement: asyncio.TimerHandle | None = None
        self.killed_because: str | None = None

    def send(self, message: Message) -> None:
        self._input.write(encode(message))

    async def receive(self) -> Message:
        size = body_size(await self._output.readexactly(LENGTH_BYTES))
        return decode(await self._output.readexactly(size))

    async def is_alive(self) -> bool:
        """Asks it: who was killed while it had nothing to do is no loss, but not always noticed.

        One that hangs is given up like any other; then this raises what `receive` does."""
        try:
            self.send({"kind": "ping"})
            await self.receive()
        except (OSError, EOFError):
            if self.killed_because is not None:
                raise
            return False
        return True

    def kill(self, reason: str) -> None:
        self.killed_because = reason
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def end(self) -> int:
        """A worker whose input ends goes by itself, unless it cannot; returns its exit code."""
        self._input.close()
        try:
            return await asyncio.wait_for(self.process.wait(), END_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            return await self.process.wait()


class CleanerProcesses:
    """What is to be told is told on the loop, as the workers speak."""

    def __init__(
        self, tell_progress: TellProgress, tell_group: TellGroup, tell_end: TellEnd
    ) -> None:
        self._tell_progress = tell_progress
        self._tell_group = tell_group
        self._tell_end = tell_end
        self._idle: list[_Worker] = []
        self._at_work: dict[int, _Worker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    def clean(self, effect: Clean) -> None:
        self._spawn(self._run(effect))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def proceed(self, effect: Proceed) -> None:
        worker = self._at_work.get(effect.number)
        if worker is not None:
            worker.send({"kind": "proceed" if effect.go_on else "abort"})

    def give_up(self, effect: GiveUp) -> None:
        worker = self._at_work.get(effect.number)
        if worker is not None:
            worker.kill(effect.reason)

    async def stop(self) -> None:
        """At once: what a worker had not finished is thrown away anyway."""
        self._is_stopping = True
        for worker in list(self._at_work.values()):
            worker.kill(_STOPPING)
        if self._tasks:
            await asyncio.wait(self._tasks)
        for worker in self._idle:
            if worker.retirement is not None:
                worker.retirement.cancel()
            await worker.end()
        self._idle.clear()

    async def _run(self, effect: Clean) -> None:
        worker: _Worker | None = None
        try:
            worker = self._take_idle()
            if worker is not None:
                self._at_work[effect.number] = worker
                if not await worker.is_alive():
                    await worker.end()
                    worker = None
            if worker is None:
                worker = await _start_worker()
                self._at_work[effect.number] = worker
                if self._is_stopping:
                    # It was being started when the others were killed.
                    worker.kill(_STOPPING)
            outcome = await self._converse(worker, effect)
        except Exception as error:  # noqa: BLE001 - a border: a pass that never ends holds its log
            reason = await _reason_of_death(worker, error)
            self._at_work.pop(effect.number, None)
            self._tell_end(effect.number, self._failure(effect, reason))
            return
        del self._at_work[effect.number]
        loop = asyncio.get_running_loop()
        worker.retirement = loop.call_later(IDLE_S, self._retire, worker)
        self._idle.append(worker)
        self._tell_end(effect.number, outcome)

    def _failure(self, effect: Clean, reason: str) -> PassFailed:
        tp = effect.plan.topic_partition
        if self._is_stopping:
            _LOG.info("cleaning stopped partition=%s", tp)
            return PassFailed(_STOPPING)
        _LOG.warning("worker died partition=%s reason=%s", tp, reason)
        return PassFailed(reason, worker_died=True)

    async def _converse(self, worker: _Worker, effect: Clean) -> PassReport | PassFailed:
        worker.send(plan_message(effect.plan))
        while True:
            message = await worker.receive()
            match message["kind"]:
                case "progress":
                    self._tell_progress(effect.number)
                case "group":
                    self._tell_group(effect.number, group_of(message))
                case "done":
                    return report_of(message)
                case "failed":
                    return PassFailed(str(message["detail"]))
                case other:
                    raise ValueError(f"a worker says {other!r}")

    def _take_idle(self) -> _Worker | None:
        """One that still lives, as far as is known."""
        while self._idle:
            worker = self._idle.pop()
            if worker.retirement is not None:
                worker.retirement.cancel()
            if worker.process.returncode is None:
                return worker
        return None

    def _retire(self, worker: _Worker) -> None:
        if worker in self._idle:
            self._idle.remove(worker)
            self._spawn(_end(worker))


async def _end(worker: _Worker) -> None:
    await worker.end()


async def _reason_of_death(worker: _Worker | None, error: Exception) -> str:
    if worker is None:
        return f"no cleaning worker could be started: {error}"
    code = await worker.end()
    if worker.killed_because is not None:
        return f"the cleaning worker was killed: {worker.killed_because}"
    return f"the cleaning worker died: {error}, exit code {code}"


async def _start_worker() -> _Worker:
    return _Worker(await worker_process.start(_MODULE))
