"""The worker process that analyses logs, as the runtime uses it. Shell.

The broker asks for one analysis at a time. The worker remembers what it has read, so it is kept for
as long as a page that is looked at keeps asking, and is let go a while after. One that dies costs
the analysis it was at.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Final

from ledgerstone.server.effects import Analyse
from ledgerstone.server.erasing.process import IDLE_S, Worker, start_worker
from ledgerstone.state.anatomy_plan import AnatomyPlan, AnatomyReport

_LOG: Final = logging.getLogger(__name__)
_MODULE: Final = "ledgerstone.server.anatomy.worker"

# The number that was asked for, and what came of it: a report, or why there is none.
TellEnd = Callable[[int, AnatomyReport | str], None]


class AnatomyProcess:
    """What is to be told is told on the loop. Every number gets one end, except after `stop`."""

    def __init__(self, tell_end: TellEnd, *, idle_s: float = IDLE_S) -> None:
        self._tell_end = tell_end
        self._idle_s = idle_s
        self._worker: Worker | None = None
        self._retirement: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def analyse(self, effect: Analyse) -> None:
        if self._retirement is not None:
            self._retirement.cancel()
        self._spawn(self._serve(effect))

    @property
    def has_worker(self) -> bool:
        return self._worker is not None

    async def stop(self) -> None:
        """At once: an analysis that is half done says nothing."""
        if self._retirement is not None:
            self._retirement.cancel()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        worker, self._worker = self._worker, None
        if worker is not None:
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
            await worker.end()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, effect: Analyse) -> None:
        result = await self._run(effect.plan)
        loop = asyncio.get_running_loop()
        self._retirement = loop.call_later(self._idle_s, self._retire)
        self._tell_end(effect.number, result)

    def _retire(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            self._spawn(_end(worker))

    async def _run(self, plan: AnatomyPlan) -> AnatomyReport | str:
        try:
            if self._worker is None or self._worker.process.returncode is not None:
                self._worker = await start_worker(_MODULE)
            return await _converse(self._worker, plan)
        except Exception as error:  # noqa: BLE001 - a border: an analysis that never ends blocks all
            worker, self._worker = self._worker, None
            code = await worker.end() if worker is not None else None
            reason = f"the analysing worker died: {type(error).__name__}, exit code {code}"
            _LOG.warning("worker died analysis=%s reason=%s", plan.topic_partition, reason)
            return reason


async def _end(worker: Worker) -> None:
    await worker.end()


async def _converse(worker: Worker, plan: AnatomyPlan) -> AnatomyReport | str:
    worker.send({"kind": "analyse", "plan": plan.to_json()})
    while True:
        message = await worker.receive()
        match message["kind"]:
            case "progress":
                continue
            case "analysed":
                return AnatomyReport.from_json(message["report"])
            case "failed":
                return str(message["detail"])
            case other:
                raise ValueError(f"a worker says {other!r}")
