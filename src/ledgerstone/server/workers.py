"""The broker's room of workers: who does which effect, and who is told what. Shell, on asyncio.

Cleaning has a worker for each pass that the broker starts. Scanning and analysing have one each:
two scans would only take the disk from each other. A search goes before the scans that wait,
because a person waits for it. Plans of scans hold secrets; nothing of them is logged.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from ledgerstone.cleaner import messages
from ledgerstone.cleaner.plan import CleanedGroup, PassReport
from ledgerstone.erasure import scan_messages
from ledgerstone.erasure.scan_plan import ScanReport, SearchPlan, SearchReport
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import Analyse, Clean, GiveUp, Proceed, Scan, WorkerName
from ledgerstone.server.erasing.scans import ScanFailed, ScanResult
from ledgerstone.state.anatomy_plan import AnatomyReport
from ledgerstone.workers.frames import Message
from ledgerstone.workers.pool import JobFailed, Listener, Pool, Trade
from ledgerstone.workers.process import Worker

WorkerEffect = Clean | Proceed | GiveUp | Scan | Analyse


def _no_part(content: Message) -> None:
    raise ValueError("this worker has no parts to hand over")


CLEANING: Trade[CleanedGroup, PassReport] = Trade(
    name=WorkerName.CLEANING,
    module="ledgerstone.cleaner.worker",
    read_part=messages.group_of,
    read_end=messages.report_of,
)
SCANNING: Trade[None, SearchReport | ScanReport] = Trade(
    name=WorkerName.SCANNING,
    module="ledgerstone.erasure.worker",
    read_part=_no_part,
    read_end=scan_messages.report_of,
    most=1,
)
ANALYSING: Trade[None, AnatomyReport] = Trade(
    name=WorkerName.ANALYSING,
    module="ledgerstone.server.anatomy.worker",
    read_part=_no_part,
    read_end=AnatomyReport.from_json,
    most=1,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Whom to tell, on the loop: that a job is at work, has a part ready, or has ended."""

    cleaning_goes_on: Callable[[int], None]
    group_cleaned: Callable[[int, CleanedGroup], None]
    cleaning_ended: Callable[[int, PassReport | PassFailed], None]
    scan_goes_on: Callable[[int], None]
    scan_ended: Callable[[int, ScanResult], None]
    analysis_goes_on: Callable[[int], None]
    analysed: Callable[[int, AnatomyReport | str], None]

    def cleaning(self) -> Listener[CleanedGroup, PassReport]:
        def ended(number: int, end: PassReport | JobFailed) -> None:
            self.cleaning_ended(number, PassFailed(*end) if isinstance(end, JobFailed) else end)

        return Listener(heard=self.cleaning_goes_on, part=self.group_cleaned, ended=ended)

    def scanning(self) -> Listener[None, SearchReport | ScanReport]:
        def ended(number: int, end: SearchReport | ScanReport | JobFailed) -> None:
            self.scan_ended(number, ScanFailed(*end) if isinstance(end, JobFailed) else end)

        return Listener(heard=self.scan_goes_on, part=_unheard, ended=ended)

    def analysing(self) -> Listener[None, AnatomyReport]:
        def ended(number: int, end: AnatomyReport | JobFailed) -> None:
            self.analysed(number, end.reason if isinstance(end, JobFailed) else end)

        return Listener(heard=self.analysis_goes_on, part=_unheard, ended=ended)


def _unheard(number: int, part: None) -> None:
    raise AssertionError("its trade reads no parts")


Start = Callable[[], Awaitable[Worker]]


class WorkerRoom:
    """Performs effects that are work for a worker. `starts` are workers that are no processes."""

    def __init__(self, tell: Tell, starts: Mapping[WorkerName, Start] | None = None) -> None:
        start = (starts or {}).get
        self._cleaning = Pool(CLEANING, tell.cleaning(), start=start(WorkerName.CLEANING))
        self._scanning = Pool(SCANNING, tell.scanning(), start=start(WorkerName.SCANNING))
        self._analysing = Pool(ANALYSING, tell.analysing(), start=start(WorkerName.ANALYSING))

    def perform(self, effect: WorkerEffect) -> None:
        match effect:
            case Clean(number, plan):
                self._cleaning.hand_over(number, messages.plan_message(plan))
            case Proceed(number, go_on):
                self._cleaning.word(number, go_on=go_on)
            case Scan(number, plan):
                content = scan_messages.plan_message(plan)
                self._scanning.hand_over(number, content, is_urgent=isinstance(plan, SearchPlan))
            case Analyse(number, plan):
                self._analysing.hand_over(number, plan.to_json())
            case GiveUp(number, reason, worker):
                self._give_up(worker, number, reason)
            case _:
                assert_never(effect)

    def _give_up(self, worker: WorkerName, number: int, reason: str) -> None:
        match worker:
            case WorkerName.CLEANING:
                self._cleaning.give_up(number, reason)
            case WorkerName.SCANNING:
                self._scanning.give_up(number, reason)
            case WorkerName.ANALYSING:
                self._analysing.give_up(number, reason)

    async def stop(self) -> None:
        """At once. Every job ends, failed, and no worker is left."""
        for pool in (self._cleaning, self._scanning, self._analysing):
            await pool.stop()
