"""A process that searches and scans for keys on behalf of a broker. Shell.

Own process rather than a thread, as the cleaner's: compiled code and big buffers stay out of the
broker. A plan holds secrets, which is why it comes through the pipe; nothing of it is ever written
anywhere. How the process lives and talks is in `workers`.
"""

from collections.abc import Callable
from typing import Final

from ledgerstone.erasure.residue import scan_dirs
from ledgerstone.erasure.scan_messages import plan_of, report_message
from ledgerstone.erasure.scan_plan import ScanPlan, ScanReport, SearchPlan, SearchReport
from ledgerstone.erasure.search import search_partitions
from ledgerstone.fs import Filesystem
from ledgerstone.system import ReadOnlyFilesystem
from ledgerstone.workers.child import Line, Work
from ledgerstone.workers.frames import Message
from ledgerstone.workers.pace import Pace

# Scanning can wait; clients cannot.
NICE: Final = 5


def scan(
    fs: Filesystem,
    plan: ScanPlan,
    *,
    before_read: Callable[[int], None] = lambda size: None,
    go_on: Callable[[], None] = lambda: None,
) -> SearchReport | ScanReport:
    if isinstance(plan, SearchPlan):
        return search_partitions(fs, plan, before_read=before_read, go_on=go_on)
    return scan_dirs(fs, plan, before_read=before_read, go_on=go_on)


def work(content: Message, line: Line) -> Message:
    plan = plan_of(content)
    pace = Pace(line, plan.bytes_per_second)
    found = scan(ReadOnlyFilesystem(), plan, before_read=pace.before_read, go_on=pace.go_on)
    return report_message(found)


def make_work() -> Work:
    return work
