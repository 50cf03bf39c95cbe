"""The worker process that searches and scans for keys, as the runtime uses it. Shell.

One process at most, since scans read all that there is and two would only take the disk from each
other: what is asked for meanwhile waits its turn, searches before scans, for somebody waits for a
search. A worker that has nothing to do is kept for a while and then let go. One that dies costs
the scan it was at. Plans hold secrets: they go through the pipe, and nothing of them is logged.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from ledgerstone.erasure.scan_messages import (
    LENGTH_BYTES,
    Message,
    body_size,
    decode,
    encode,
    plan_message,
    report_of,
)
from ledgerstone.erasure.scan_plan import ScanPlan, SearchPlan
from ledgerstone.server import worker_process
from ledgerstone.server.erasing.scans import ScanFailed as ScanFailed
from ledgerstone.server.erasing.scans import ScanResult as ScanResult

_LOG: Final = logging.getLogger(__name__)
IDLE_S: Final = 30.0
# What an idle worker gets to end by itself.
END_S: Final = 2.0
_MODULE: Final = "ledgerstone.erasure.worker"


TellProgress = Callable[[int, int], None]  # number, bytes read so far
TellEnd = Callable[[int, ScanResult], None]


class Worker:
    """A process of ours at the other end of two pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._input = process.stdin
        self._output = process.stdout

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


class ScanProcess:
    """What is to be told is told on the loop. Every number that was asked for gets one end, except
    after `stop`."""

    def __init__(self, tell_end: TellEnd, tell_progress: TellProgress | None = None) -> None:
        self._tell_end = tell_end
        self._tell_progress = tell_progress
        self._waiting: dict[int, ScanPlan] = {}
        self._at_work: int | None = None
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()

    def scan(self, number: int, plan: ScanPlan) -> None:
        self._waiting[number] = plan
        self._asked.set()
        if self._task is None:
            self._task = asyncio.ensure_future(self._serve())

    def abort(self, number: int) -> None:
        """It ends soon, as failed; nothing happens if it has ended already."""
        if self._waiting.pop(number, None) is not None:
            reason = ScanFailed("given up before it began", is_aborted=True)
            asyncio.get_running_loop().call_soon(self._tell_end, number, reason)
        elif self._at_work == number and self._worker is not None:
            self._worker.send({"kind": "abort"})

    async def stop(self) -> None:
        """At once: a scan that is half done says nothing."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._worker is not None:
            with contextlib.suppress(ProcessLookupError):
                self._worker.process.kill()
            await self._worker.end()
            self._worker = None

    async def _serve(self) -> None:
        """Until nothing was asked for during IDLE_S."""
        while True:
            while self._waiting:
                number = self._next()
                plan = self._waiting.pop(number)
                self._at_work = number
                result = await self._run(number, plan)
                self._at_work = None
                self._tell_end(number, result)
            self._asked.clear()
            try:
                await asyncio.wait_for(self._asked.wait(), IDLE_S)
            except TimeoutError:
                worker, self._worker = self._worker, None
                if worker is not None:
                    await worker.end()
            if not self._waiting and self._worker is None:
                self._task = None
                return

    def _next(self) -> int:
        searches = [n for n, plan in self._waiting.items() if isinstance(plan, SearchPlan)]
        return searches[0] if searches else next(iter(self._waiting))

    async def _run(self, number: int, plan: ScanPlan) -> ScanResult:
        try:
            if self._worker is None or self._worker.process.returncode is not None:
                self._worker = await start_worker(_MODULE)
            return await self._converse(self._worker, number, plan)
        except Exception as error:  # noqa: BLE001 - a border: a scan that never ends blocks all
            worker, self._worker = self._worker, None
            code = await worker.end() if worker is not None else None
            reason = f"the scanning worker died: {type(error).__name__}, exit code {code}"
            _LOG.warning("worker died scan=%s reason=%s", number, reason)
            return ScanFailed(reason, worker_died=True)

    async def _converse(self, worker: Worker, number: int, plan: ScanPlan) -> ScanResult:
        worker.send(plan_message(plan))
        while True:
            message = await worker.receive()
            match message["kind"]:
                case "progress":
                    if self._tell_progress is not None:
                        self._tell_progress(number, int(message["bytes"]))
                case "searched" | "scanned":
                    return report_of(message)
                case "failed":
                    return ScanFailed(str(message["detail"]), is_aborted=bool(message["aborted"]))
                case other:
                    raise ValueError(f"a worker says {other!r}")


async def start_worker(module: str) -> Worker:
    return Worker(await worker_process.start(module))
