"""Runs every definition of a directory at once, as the roster says. Shell.

Those whose Spark settings agree share one session, each in a thread and with a fair share of its
tasks. A process has one session, so the others run in processes of their own. The loop is in the
caller's thread: it looks at the files, starts and stops, and is told what has happened.
"""

import logging
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from pyspark.sql import SparkSession

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import replace
from ledgerstone.errors import LedgerstoneError
from ledgerstone.pipeline.applying import BatchReport
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_files import definitions_in, load_definition
from ledgerstone.pipeline.roster import DefinitionRoster, Served, StartRun
from ledgerstone.pipeline.runner import PipelineRun
from ledgerstone.pipeline.status import RunStatus, read_status
from ledgerstone.pipeline.tables.opening import check_drivers
from ledgerstone.pipeline.turns import Turns
from ledgerstone.spark.failures import SparkFailed

# Each thread's jobs are a pool of their own, and pools share the cores evenly.
FAIR: Final[Mapping[str, str]] = {"spark.scheduler.mode": "FAIR"}
POOL: Final = "spark.scheduler.pool"
_LOOK_S: Final = 0.5

logger = logging.getLogger(__name__)

OpenSession = Callable[[Pipeline], SparkSession]


class ServedNews(NamedTuple):
    """A batch is in a table, or, without one, the state of a definition has changed."""

    served: Served
    name: str | None  # None if the definition is not valid
    batch: BatchReport | None = None
    status: RunStatus | None = None


class _Ended(NamedTuple):
    path: str
    error: str | None


class _Batch(NamedTuple):
    path: str
    report: BatchReport
    status: RunStatus


class _Run(Protocol):
    def stop(self) -> None: ...


class ServedRuns:
    def __init__(
        self,
        directory: Path,
        *,
        master: str | None,
        once: bool,
        open_session: OpenSession,
        tell: Callable[[ServedNews], None],
        clock: Clock,
    ) -> None:
        """`master` overrides those of the definitions."""
        self._directory = directory
        self._master = master
        self._once = once
        self._open_session = open_session
        self._tell = tell
        self._clock = clock
        self._roster = DefinitionRoster(once=once)
        self._events: queue.Queue[_Ended | _Batch] = queue.Queue()
        self._runs: dict[str, _Run] = {}
        self._names: dict[str, str] = {}
        self._spark: SparkSession | None = None
        self._shared: tuple[Any, ...] | None = None
        self._turns = Turns()
        self._is_to_stop = False

    def stop(self) -> None:
        """May be called by a signal handler; every run ends after its transaction."""
        self._is_to_stop = True

    @property
    def has_failed(self) -> bool:
        return self._roster.has_failed

    def serve(self) -> None:
        """Until `stop`, or, where it is to run once, until all have ended."""
        lost: SparkFailed | None = None
        while True:
            if self._is_to_stop:
                for each in self._roster.stop():
                    self._runs[each.path].stop()
            for action in self._roster.look(definitions_in(self._directory), self._now_ms()):
                if isinstance(action, StartRun):
                    self._start(action.path)
                else:
                    self._runs[action.path].stop()
            if self._roster.is_done:
                break
            lost = self._next_event() or lost
            if lost is not None:
                self._is_to_stop = True
        if lost is not None:
            raise lost

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()

    # -- what happens -------------------------------------------------------------------------

    def _next_event(self) -> SparkFailed | None:
        """Waits for one, a little. Returns a failure that no run survives."""
        try:
            event = self._events.get(timeout=_LOOK_S)
        except queue.Empty:
            return None
        served = self._roster.served[event.path]
        name = self._names[event.path]
        if isinstance(event, _Batch):
            self._tell(ServedNews(served, name, event.report, event.status))
            return None
        del self._runs[event.path]
        self._roster.ended(event.path, self._now_ms(), event.error)
        self._tell(ServedNews(served, name))
        return None if event.error is None else self._session_lost(event.error)

    def _session_lost(self, error: str) -> SparkFailed | None:
        if self._spark is None:
            return None
        try:
            is_stopped = bool(self._spark.sparkContext._jsc.sc().isStopped())
        except Exception:  # noqa: BLE001 - whatever py4j raises about a JVM that is gone
            is_stopped = True
        return SparkFailed(error) if is_stopped else None

    def _start(self, path: str) -> None:
        served = self._roster.served[path]
        try:
            pipeline = self._definition(path)
        except LedgerstoneError as error:
            self._roster.invalid(path, str(error))
            self._tell(ServedNews(served, None))
            return
        self._names[path] = pipeline.name
        if self._shared is None:
            self._shared = self._most_common(pipeline)
        if _settings(pipeline) == self._shared:
            self._runs[path] = self._start_here(path, pipeline)
        else:
            self._runs[path] = _OwnProcess(path, pipeline, self._once, self._events)
        self._tell(ServedNews(served, pipeline.name))

    def _definition(self, path: str) -> Pipeline:
        pipeline = load_definition(path)
        check_drivers(pipeline)
        return pipeline if self._master is None else replace(pipeline, master=self._master)

    def _most_common(self, first: Pipeline) -> tuple[Any, ...]:
        """Of the settings there are now; the session keeps them."""
        found = Counter([_settings(first)])
        for path in definitions_in(self._directory):
            try:
                found[_settings(self._definition(path))] += 1
            except LedgerstoneError:
                continue
        return found.most_common(1)[0][0]

    def _start_here(self, path: str, pipeline: Pipeline) -> PipelineRun:
        if self._spark is None:
            self._spark = self._open_session(pipeline)
        spark = self._spark

        def told(report: BatchReport, status: RunStatus) -> None:
            self._events.put(_Batch(path, report, replace(status)))

        run = PipelineRun(pipeline, spark, once=self._once, on_batch=told, turns=self._turns)

        def work() -> None:
            error = None
            try:
                spark.sparkContext.setLocalProperty(POOL, pipeline.name)
                run.run()
            except BaseException as failure:
                error = str(failure) or type(failure).__name__
                logger.debug("pipeline=%s has failed", pipeline.name, exc_info=True)
            self._events.put(_Ended(path, error))

        threading.Thread(target=work, name=f"pipeline-{pipeline.name}", daemon=True).start()
        return run


def _settings(pipeline: Pipeline) -> tuple[Any, ...]:
    return (pipeline.master, tuple(sorted(pipeline.spark.items())))


class _OwnProcess:
    """`pipeline run` for a definition whose session is not the shared one."""

    def __init__(
        self, path: str, pipeline: Pipeline, once: bool, events: "queue.Queue[_Ended | _Batch]"
    ) -> None:
        flags = ["--once"] if once else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ledgerstone", "pipeline", "run", path, *flags, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A Ctrl-C is for us, and we pass it on once.
            start_new_session=True,
        )
        self._is_stopped = False

        def wait() -> None:
            code = self._process.wait()
            status = read_status(Path(pipeline.work)) or {}
            error = status.get("error") or f"its process ended with code {code}"
            is_fine = code == 0 or (self._is_stopped and code == 128 + signal.SIGTERM)
            events.put(_Ended(path, None if is_fine else str(error)))

        threading.Thread(target=wait, daemon=True).start()

    def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self._process.terminate()
