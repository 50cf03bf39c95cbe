"""Worker processes for cleaning passes, as the runtime uses them. Shell.

One process per pass at work; one that is done waits a while for the next pass and is then let go,
so that a broker without compacted topics has none. A worker that dies costs its pass.
"""

import asyncio
import contextlib
import logging
import sys
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
from ledgerstone.server.cleaning_parts import PassFailed
from ledgerstone.server.effects import Clean, Proceed

_LOG: Final = logging.getLogger(__name__)
IDLE_S: Final = 30.0
# What an idle worker gets to end by itself.
END_S: Final = 2.0
_MODULE: Final = "ledgerstone.cleaner.worker"

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

    def send(self, message: Message) -> None:
        self._input.write(encode(message))

    async def receive(self) -> Message:
        size = body_size(await self._output.readexactly(LENGTH_BYTES))
        return decode(await self._output.readexactly(size))

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
    """`tell_group` and `tell_end` are called on the loop, as the workers speak."""

    def __init__(self, tell_group: TellGroup, tell_end: TellEnd) -> None:
        self._tell_group = tell_group
        self._tell_end = tell_end
        self._idle: list[_Worker] = []
        self._at_work: dict[int, _Worker] = {}
        self._tasks: set[asyncio.Task[None]] = set()

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

    async def stop(self) -> None:
        """At once: what a worker had not finished is thrown away anyway."""
        for worker in list(self._at_work.values()):
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
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
            worker = self._take_idle() or await _start_worker()
            self._at_work[effect.number] = worker
            outcome = await self._converse(worker, effect)
        except Exception as error:  # noqa: BLE001 - a border: a pass that never ends holds its log
            code = await worker.end() if worker is not None else None
            reason = f"the cleaning worker died: {error}, exit code {code}"
            _LOG.warning("worker died partition=%s reason=%s", effect.plan.topic_partition, reason)
            self._at_work.pop(effect.number, None)
            self._tell_end(effect.number, PassFailed(reason, worker_died=True))
            return
        del self._at_work[effect.number]
        loop = asyncio.get_running_loop()
        worker.retirement = loop.call_later(IDLE_S, self._retire, worker)
        self._idle.append(worker)
        self._tell_end(effect.number, outcome)

    async def _converse(self, worker: _Worker, effect: Clean) -> PassReport | PassFailed:
        worker.send(plan_message(effect.plan))
        while True:
            message = await worker.receive()
            match message["kind"]:
                case "group":
                    self._tell_group(effect.number, group_of(message))
                case "done":
                    return report_of(message)
                case "failed":
                    return PassFailed(str(message["detail"]))
                case other:
                    raise ValueError(f"a worker says {other!r}")

    def _take_idle(self) -> _Worker | None:
        """One that still lives: whoever was killed while it had nothing to do is no loss."""
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


async def _start_worker() -> _Worker:
    return _Worker(
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
