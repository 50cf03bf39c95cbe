"""A process that runs cleaning passes for a broker. Shell.

Own process rather than a thread: compiled code and big buffers stay out of the broker, and a pass
that dies takes nothing with it. It hands over each `.cleaned` segment as a part of its job, and
goes on when the broker has put it in its place. How it lives and talks is in `workers`.
"""

import time
from collections.abc import Callable
from typing import Final

from ledgerstone.cleaner.cleaning_pass import run_pass
from ledgerstone.cleaner.messages import group_message, plan_of, report_message
from ledgerstone.cleaner.plan import CleanedGroup, CleaningPlan, PassReport
from ledgerstone.cleaner.throttle import Throttle
from ledgerstone.clock import Dice
from ledgerstone.fs import Filesystem
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from ledgerstone.workers.child import Line, OwnerGone, Work
from ledgerstone.workers.frames import Message

# Cleaning can wait; clients cannot.
NICE: Final = 5


def clean(
    fs: Filesystem,
    plan: CleaningPlan,
    *,
    dice: Dice,
    on_group: Callable[[CleanedGroup], None],
    should_abort: Callable[[], bool],
    throttle: Throttle | None = None,
) -> PassReport | str:
    """One pass; a text where it came to no end. A border: what goes wrong is said, not raised."""

    def hand_over(group: CleanedGroup) -> None:
        # The owner renames the files at once, so not only they but their names must be durable.
        fs.fsync_dir(plan.directory)
        on_group(group)

    try:
        return run_pass(
            fs, plan, dice=dice, on_group=hand_over, should_abort=should_abort, throttle=throttle
        )
    except OwnerGone:
        raise
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"


def work_on(fs: Filesystem) -> Work:
    def work(content: Message, line: Line) -> Message | str:
        plan = plan_of(content)
        outcome = clean(
            fs,
            plan,
            dice=SystemDice(),
            throttle=_throttle(plan),
            on_group=lambda group: line.hand_over(group_message(group)),
            should_abort=line.should_abort,
        )
        return outcome if isinstance(outcome, str) else report_message(outcome)

    return work


def _throttle(plan: CleaningPlan) -> Throttle | None:
    if plan.bytes_per_second is None:
        return None
    return Throttle(
        plan.bytes_per_second, clock=SystemClock(), sleep_ms=lambda ms: time.sleep(ms / 1000)
    )


def make_work() -> Work:
    return work_on(OsFilesystem())
