"""Starts what the demo needs, runs its steps, and stops everything again. Shell.

All processes end with us and all files are in one directory, however the demo ends.
"""

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from ledgerstone.cli.options import connect
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.demo import table_side
from ledgerstone.demo.broker_process import DemoBroker, starting_broker
from ledgerstone.demo.closing_words import Closing, tell_closing
from ledgerstone.demo.errors import DemoFailed, NoRepository, TooLittleHistory
from ledgerstone.demo.git_calls import Git
from ledgerstone.demo.git_history import Limits, read_git_history
from ledgerstone.demo.history import History
from ledgerstone.demo.sample_history import sample_history
from ledgerstone.demo.story import Story
from ledgerstone.demo.table_side import spark_tables
from ledgerstone.demo.telling import Teller
from ledgerstone.records.kernels import load as load_kernels
from ledgerstone.system import SystemClock

_NO_SPARK: Final = "no table: {} missing; `pip install '.[spark]'` installs Spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the viewer asked for."""

    repository: Path | None = None  # None: where we stand, or the sample
    keep: Path | None = None
    limits: Limits = field(default_factory=Limits)
    wait: bool = True


def run_demo(wishes: Wishes, console: Console) -> None:
    """Raises DemoFailed, or what broker and pipeline raise, at the first step that fails."""
    started_s = time.monotonic()
    if wishes.repository is not None:
        # Before anything starts: the path may be mistyped.
        Git(wishes.repository).check()
    with _signals_end_us(), ExitStack() as stack:
        # Here rather than in the broker, whose output goes to a file: compiling may take a while.
        load_kernels(lambda line: console.print(line, markup=False, highlight=False))
        directory = stack.enter_context(_directory(wishes.keep))
        missing = table_side.missing_for_spark()
        # A class archive helps the next session. It is written while the viewer looks at the page;
        # a demo that exits at once would only wait for it.
        tables = (
            None
            if missing
            else stack.enter_context(spark_tables(directory, keep_classes=wishes.wait))
        )
        starting = stack.enter_context(starting_broker(directory))
        teller = Teller(console)
        history = _choose(wishes, teller)
        with teller.step("a broker starts, on a virtual clock") as step:
            broker = starting.wait()
            step.say(f"Kafka's protocol at {broker.bootstrap}, HTTP at {broker.http}")
        client = stack.enter_context(connect(broker.bootstrap))
        story = Story(teller, history, client, broker, directory)
        if missing:
            teller.line(f"    {_NO_SPARK.format(', '.join(missing))}")
        story.tell(tables)
        if tables is not None and not wishes.wait:
            with teller.step("Spark ends"):
                tables.close()
        closing = Closing(
            checks=story.checks,
            sizes=story.sizes,
            truth_name=history.truth_name,
            seconds=time.monotonic() - started_s,
            broker=broker if wishes.wait else None,
            kept=wishes.keep,
        )
        tell_closing(teller, closing)
        if wishes.wait:
            _stay(teller, broker)


def _choose(wishes: Wishes, teller: Teller) -> History:
    with teller.step("a history is read") as step:
        now_ms = SystemClock().now_ms()
        try:
            place = Path.cwd() if wishes.repository is None else wishes.repository
            history = read_git_history(place, wishes.limits, now_ms=now_ms)
        except NoRepository as error:
            history = sample_history()
            step.say(f"{error}: using the sample instead")
        except TooLittleHistory as error:
            history = sample_history()
            step.say(f"{error}, too little to show: using the sample instead")
        counts = history.counts
        step.say(
            f"{history.origin}: {len(history.commits)} commits, {counts.adds} adds, "
            f"{counts.updates} updates, {counts.deletes} deletes"
        )
        if history.note:
            step.say(history.note)
    return history


def _stay(teller: Teller, broker: DemoBroker) -> None:
    """Until Ctrl-C, or until the broker ends by itself."""
    teller.line()
    teller.heading(f"The page is at {broker.page} until Ctrl-C.")
    try:
        code = broker.process.wait()
    except KeyboardInterrupt:
        teller.line()
        return
    raise DemoFailed(f"the broker ended with exit code {code}")


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        made = Path(tempfile.mkdtemp(prefix="ledgerstone-demo-"))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise DemoFailed(f"{keep} is not empty; --keep takes a directory that is, or none")
    except OSError as error:
        raise DemoFailed(f"{keep} cannot be used: {error}") from error
    yield keep.absolute()


@contextmanager
def _signals_end_us() -> Iterator[None]:
    """A closed terminal and a plain kill stop everything, as Ctrl-C does."""

    def end(number: int, _: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
