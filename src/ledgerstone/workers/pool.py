"""The workers of one trade: jobs handed over, words passed on, ends reported. Shell, on asyncio.

One worker per job at work. A worker that is done waits a while for the next job and is then let go,
so an idle broker has none. A worker that dies, or says what it must not say, costs its job and no
other. Every job gets exactly one end, and not before its worker is idle or dead: a dead worker
writes nothing any more, a stopped one might.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, Generic, NamedTuple, TypeVar

from ledgerstone.dataclasses import dataclass
from ledgerstone.workers.conversation import (
    Conversation,
    DoneReport,
    FailureReport,
    Here,
    OutOfTurn,
    PartReport,
    ProgressReport,
)
from ledgerstone.workers.frames import FrameRefused, Message
from ledgerstone.workers.process import Worker, WorkerProcess

_LOG: Final = logging.getLogger(__name__)
IDLE_S: Final = 30.0
STOPPING: Final = "the broker stops"
P = TypeVar("P")
E = TypeVar("E")


class JobFailed(NamedTuple):
    """Why a job has no result."""

    reason: str
    worker_died: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade(Generic[P, E]):
    """What sets one kind of worker apart. A content that cannot be read counts as rubbish."""

    name: str  # as in "the scanning worker"
    module: str
    read_part: Callable[[Message], P]
    read_end: Callable[[Message], E]
    most: int | None = None  # workers at a time; None: one for each job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListener(Generic[P, E]):
    """What the owner is told, on the loop. A job is first heard of when a worker gets it."""

    heard: Callable[[int], None]
    part: Callable[[int, P], None]
    ended: Callable[[int, E | JobFailed], None]


@dataclass(slots=True, eq=False)
class _Held:
    """A worker and the conversation with it."""

    worker: Worker
    talk: Conversation
    retirement: asyncio.TimerHandle | None = None


@dataclass(slots=True, eq=False)
class _Job:
    number: int
    content: Message
    is_urgent: bool
    is_called_off: bool = False
    held: _Held | None = None
    given_up_because: str | None = None

    def hold(self, held: _Held) -> None:
        self.held = held
        if self.given_up_because is not None:
            # While the worker was being started.
            held.worker.kill()

    def give_up(self, reason: str) -> None:
        if self.given_up_because is None:
            self.given_up_because = reason
        if self.held is not None:
            self.held.worker.kill()


class Pool(Generic[P, E]):
    def __init__(
        self,
        trade: Trade[P, E],
        listener: JobListener[P, E],
        *,
        start: Callable[[], Awaitable[Worker]] | None = None,
        idle_s: float = IDLE_S,
    ) -> None:
        self._trade = trade
        self._listener = listener
        self._start = start or self._start_process
        self._idle_s = idle_s
        self._idle: list[_Held] = []
        self._waiting: list[_Job] = []
        self._at_work: dict[int, _Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    async def _start_process(self) -> Worker:
        return await WorkerProcess.start(self._trade.module)

    # -- what the owner asks for --------------------------------------------------------------

    def hand_over(self, number: int, content: Message, *, is_urgent: bool = False) -> None:
        """An urgent job goes before those that wait, not before those at work."""
        self._waiting.append(_Job(number, content, is_urgent))
        self._begin()

    def word(self, number: int, *, go_on: bool) -> None:
        """The answer to a part; without `go_on` it may come at any time."""
        job = self._at_work.get(number)
        if job is not None:
            # Remembered: its worker may be starting, and would not hear it.
            job.is_called_off = job.is_called_off or not go_on
            if job.held is not None:
                _say(job.held, job.held.talk.word(go_on=go_on))

    def give_up(self, number: int, reason: str) -> None:
        """Kills its worker; once that is dead the job has ended, failed."""
        job = self._at_work.get(number)
        if job is not None:
            job.give_up(reason)

    async def stop(self) -> None:
        """At once: a job that is half done is worth nothing."""
        self._is_stopping = True
        for job in list(self._at_work.values()):
            job.give_up(STOPPING)
        while self._tasks:
            await asyncio.wait(self._tasks)
        for held in self._idle:
            if held.retirement is not None:
                held.retirement.cancel()
            await held.worker.end()
        self._idle.clear()
        while self._waiting:
            self._listener.ended(self._waiting.pop(0).number, JobFailed(STOPPING))

    # -- jobs ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        most = self._trade.most
        while self._waiting and not self._is_stopping:
            if most is not None and len(self._at_work) >= most:
                return
            job = next((each for each in self._waiting if each.is_urgent), self._waiting[0])
            self._waiting.remove(job)
            self._at_work[job.number] = job
            self._spawn(self._run(job))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A fault of the owner: this one job may never end there, the others go on.
            _LOG.error("worker unheard worker=%s", self._trade.name, exc_info=error)

    async def _run(self, job: _Job) -> None:
        end = await self._end_of(job)
        del self._at_work[job.number]
        self._begin()
        self._listener.ended(job.number, end)

    async def _end_of(self, job: _Job) -> E | JobFailed:
        try:
            self._listener.heard(job.number)
            held = await self._worker_for(job)
            end = await self._converse(held, job)
        except Exception as error:  # noqa: BLE001 - a border: a job that never ends holds its owner
            return await self._lost(job, error)
        self._rest(held)
        return end

    async def _worker_for(self, job: _Job) -> _Held:
        """An idle one that answers, or a new one."""
        while (held := self._take_idle()) is not None:
            job.hold(held)
            if await _answers(held) and job.given_up_because is None:
                return held
            if job.given_up_because is not None:
                raise EOFError
            # Killed while it had nothing to do: no loss.
            await held.worker.end()
            job.held = None
        job.hold(_Held(await self._start(), Conversation()))
        assert job.held is not None
        return job.held

    async def _converse(self, held: _Held, job: _Job) -> E | JobFailed:
        _say(held, held.talk.job(job.content))
        if job.is_called_off:
            _say(held, held.talk.word(go_on=False))
        while True:
            match held.talk.hear(await held.worker.receive()):
                case ProgressReport():
                    self._listener.heard(job.number)
                case PartReport(content):
                    self._listener.part(job.number, self._trade.read_part(content))
                case DoneReport(content):
                    return self._trade.read_end(content)
                case FailureReport(detail):
                    return JobFailed(detail)
                case Here():
                    raise AssertionError("nobody asked")

    async def _lost(self, job: _Job, error: Exception) -> JobFailed:
        name = self._trade.name
        if job.held is None:
            reason = f"no {name} worker could be started: {error}"
        else:
            if not isinstance(error, (EOFError, OSError)):
                # It still runs, and says what it must not.
                job.held.worker.kill()
            code = await job.held.worker.end()
            reason = f"the {name} worker died: {_shown(error)}, exit code {code}"
        if self._is_stopping:
            _LOG.info("worker stopped worker=%s job=%d", name, job.number)
            return JobFailed(STOPPING)
        if job.given_up_because is not None:
            reason = f"the {name} worker was killed: {job.given_up_because}"
        _LOG.warning("worker died worker=%s job=%d reason=%s", name, job.number, reason)
        return JobFailed(reason, worker_died=True)

    # -- idle workers -------------------------------------------------------------------------

    def _rest(self, held: _Held) -> None:
        held.retirement = asyncio.get_running_loop().call_later(self._idle_s, self._retire, held)
        self._idle.append(held)

    def _take_idle(self) -> _Held | None:
        """The one that was at work last; whether it still lives is for `_answers`."""
        if not self._idle:
            return None
        held = self._idle.pop()
        if held.retirement is not None:
            held.retirement.cancel()
        return held

    def _retire(self, held: _Held) -> None:
        if held in self._idle:
            self._idle.remove(held)
            self._spawn(_end(held.worker))


def _say(held: _Held, message: Message | None) -> None:
    if message is not None:
        held.worker.send(message)


async def _answers(held: _Held) -> bool:
    try:
        _say(held, held.talk.ping())
        held.talk.hear(await held.worker.receive())
    except (EOFError, OSError):
        return False
    return True


async def _end(worker: Worker) -> None:
    await worker.end()


def _shown(error: Exception) -> str:
    """Texts of our own show no content; others may quote what a worker was told."""
    return str(error) if isinstance(error, (FrameRefused, OutOfTurn)) else type(error).__name__
