"""Cleaning passes and scans in threads of this process instead of worker processes. Shell.

Starting a worker process costs a third of a second of CPU for every test, while a pass over a
test's data takes a few milliseconds. The code is that of the workers. A real broker does not use
this: there a pass must not share the interpreter.
"""

import asyncio
import queue
from functools import partial
from typing import Final

from ledgerstone.cleaner.plan import CleanedGroup, PassReport
from ledgerstone.cleaner.worker import clean
from ledgerstone.erasure.scan_messages import report_of
from ledgerstone.erasure.scan_plan import ScanAborted, ScanPlan
from ledgerstone.erasure.worker import ReadingFilesystem, work
from ledgerstone.fs import Filesystem
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.cleaning.process import CleanerProcesses, TellEnd, TellGroup
from ledgerstone.server.effects import Clean, GiveUp, Proceed
from ledgerstone.server.erasing.process import ScanProcess
from ledgerstone.server.erasing.scans import ScanFailed, ScanResult
from ledgerstone.server.runtime import Runtime
from ledgerstone.system import SystemDice

_STOPPING: Final = "the broker stops"


class _PassAtWork:
    """One pass. `words` are the owner's answers after each group: continue or stop."""

    def __init__(self) -> None:
        self.words: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.is_aborted = False

    def say(self, go_on: bool) -> None:
        self.is_aborted = self.is_aborted or not go_on
        self.words.put(go_on)


class CleaningThreads(CleanerProcesses):
    def __init__(self, fs: Filesystem, tell_group: TellGroup, tell_end: TellEnd) -> None:
        super().__init__(lambda _: None, tell_group, tell_end)
        self._fs = fs
        self._passes: dict[int, _PassAtWork] = {}

    def clean(self, effect: Clean) -> None:
        self._passes[effect.number] = _PassAtWork()
        self._spawn(self._run(effect))

    def proceed(self, effect: Proceed) -> None:
        at_work = self._passes.get(effect.number)
        if at_work is not None:
            at_work.say(effect.go_on)

    def give_up(self, effect: GiveUp) -> None:
        self.proceed(Proceed(effect.number, go_on=False))

    async def stop(self) -> None:
        self._is_stopping = True
        for at_work in self._passes.values():
            at_work.say(go_on=False)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, effect: Clean) -> None:
        loop = asyncio.get_running_loop()
        at_work = self._passes[effect.number]

        def hand_over(group: CleanedGroup) -> None:
            if not at_work.is_aborted:
                loop.call_soon_threadsafe(self._tell_group, effect.number, group)
                at_work.words.get()

        outcome = await loop.run_in_executor(
            None,
            partial(
                clean,
                self._fs,
                effect.plan,
                dice=SystemDice(),
                on_group=hand_over,
                should_abort=lambda: at_work.is_aborted,
            ),
        )
        del self._passes[effect.number]
        if isinstance(outcome, PassReport):
            self._tell_end(effect.number, outcome)
        else:
            self._tell_end(effect.number, PassFailed(_STOPPING if self._is_stopping else outcome))


class ScanningThread(ScanProcess):
    """One scan at a time, as in the process."""

    _is_unwanted = False

    def abort(self, number: int) -> None:
        if self._at_work == number:
            self._is_unwanted = True
        else:
            super().abort(number)

    async def stop(self) -> None:
        self._is_unwanted = True
        await super().stop()

    def _go_on(self, _: int) -> None:
        if self._is_unwanted:
            raise ScanAborted("the broker gave it up")

    async def _run(self, number: int, plan: ScanPlan) -> ScanResult:
        self._is_unwanted = False
        loop = asyncio.get_running_loop()
        message = await loop.run_in_executor(None, work, ReadingFilesystem(), plan, self._go_on)
        if message["kind"] == "failed":
            return ScanFailed(str(message["detail"]), is_aborted=bool(message["aborted"]))
        return report_of(message)


class ThreadedRuntime(Runtime):
    """The real runtime, except for where passes and scans run."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(broker, loop)
        fs = broker.log_dir.fs
        self._cleaners = CleaningThreads(fs, self._group_cleaned, self._cleaning_ended)
        self._scanner = ScanningThread(self._scan_ended)
