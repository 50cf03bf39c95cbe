"""The broker's room of workers: who does which effect, and who is told what. Shell, on asyncio.

Cleaning has a worker for each pass that the broker starts. Scanning and analysing have one each:
two scans would only take the disk from each other. A search goes before the scans that wait,
because a person waits for it. Plans of scans hold secrets; nothing of them is logged.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar, assert_never

from ledgerstone.cleaner import messages
from ledgerstone.cleaner.plan import CleanedGroup, PassReport
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import Analyse, Clean, GiveUp, Proceed, StartScan, WorkerName
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.server.results import AnalysisFailed, GroupCleaned, Result, StillAtWork
from ledgerstone.state.anatomy_plan import AnatomyReport
from ledgerstone.workers.frames import Message
from ledgerstone.workers.pool import JobFailed, JobListener, Pool, Trade
from ledgerstone.workers.process import Worker

if TYPE_CHECKING:
    from ledgerstone.erasure.scan_plan import ScanReport, SearchReport

Job = Clean | StartScan | Analyse
WorkerEffect = Clean | Proceed | GiveUp | StartScan | Analyse


def _no_part(content: Message) -> None:
    raise ValueError("this worker has no parts to hand over")


def _scan_report(content: Message) -> "SearchReport | ScanReport":
    # Imported here: most brokers scan nothing.
    from ledgerstone.erasure.scan_messages import report_of

    return report_of(content)


CLEANING: Trade[CleanedGroup, PassReport] = Trade(
    name=WorkerName.CLEANING,
    module="ledgerstone.cleaner.worker",
    read_part=messages.group_of,
    read_end=messages.report_of,
)
SCANNING: "Trade[None, SearchReport | ScanReport]" = Trade(
    name=WorkerName.SCANNING,
    module="ledgerstone.erasure.worker",
    read_part=_no_part,
    read_end=_scan_report,
    most=1,
)
ANALYSING: Trade[None, AnatomyReport] = Trade(
    name=WorkerName.ANALYSING,
    module="ledgerstone.server.anatomy.worker",
    read_part=_no_part,
    read_end=AnatomyReport.from_json,
    most=1,
)


Start = Callable[[], Awaitable[Worker]]
Report = Callable[[Job, Result], None]
Failure = Callable[[str, bool], Result]  # why, and whether the worker died
P = TypeVar("P", bound=CleanedGroup | None)
E = TypeVar("E", bound="PassReport | SearchReport | ScanReport | AnatomyReport")


class WorkerRoom:
    """Performs effects that are work for a worker, and reports their results on the loop.

    `starts` are workers that are no processes."""

    def __init__(self, report: Report, starts: Mapping[WorkerName, Start] | None = None) -> None:
        self._report = report
        # Workers know a job by its number.
        self._jobs: dict[tuple[WorkerName, int], Job] = {}
        start = (starts or {}).get
        self._cleaning = Pool(
            CLEANING, self._listener(CLEANING, PassFailed), start=start(WorkerName.CLEANING)
        )
        self._scanning = Pool(
            SCANNING, self._listener(SCANNING, ScanFailed), start=start(WorkerName.SCANNING)
        )
        self._analysing = Pool(
            ANALYSING, self._listener(ANALYSING, AnalysisFailed), start=start(WorkerName.ANALYSING)
        )

    def _listener(
        self, trade: Trade[P, E], failed: Callable[[str, bool], Result]
    ) -> JobListener[P, E]:
        name = WorkerName(trade.name)

        def heard(number: int) -> None:
            self._report(self._jobs[name, number], StillAtWork())

        def part(number: int, content: P) -> None:
            assert isinstance(content, CleanedGroup), "only cleaning hands over parts"
            self._report(self._jobs[name, number], GroupCleaned(content))

        def ended(number: int, end: E | JobFailed) -> None:
            job = self._jobs.pop((name, number))
            self._report(job, failed(*end) if isinstance(end, JobFailed) else end)

        return JobListener(heard=heard, part=part, ended=ended)

    def perform(self, effect: WorkerEffect) -> None:
        match effect:
            case Clean(number, plan):
                self._jobs[WorkerName.CLEANING, number] = effect
                self._cleaning.hand_over(number, messages.plan_message(plan))
            case Proceed(number, go_on):
                self._cleaning.word(number, go_on=go_on)
            case StartScan(number, plan):
                from ledgerstone.erasure.scan_messages import plan_message
                from ledgerstone.erasure.scan_plan import SearchPlan

                self._jobs[WorkerName.SCANNING, number] = effect
                content = plan_message(plan)
                self._scanning.hand_over(number, content, is_urgent=isinstance(plan, SearchPlan))
            case Analyse(number, plan):
                self._jobs[WorkerName.ANALYSING, number] = effect
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
