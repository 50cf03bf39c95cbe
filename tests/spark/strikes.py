"""Strikes a standalone cluster while jobs run on it: executors, their Python workers, drivers.

One driver runs all jobs of a family, so that a blow falls on each of them wherever it stands. The
seed decides what is struck and when; records are written meanwhile."""

import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ledgerstone.pipeline.shapes import StandaloneCluster
from tests.spark.killing import PYTHON_WORKER, descendants, kill, parents, words

# Of executors. Drivers come first: Spark gives the Python processes that it starts for a query ten
# seconds, which is too little beside tasks that take all of a machine.
NICENESS = 10
EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
TIMEOUT_S = 900.0
# A wait that lasts tells how far everything is.
TELL_S = 30.0
# Written at once before each blow, and then a few at a time until it falls. All of it is applied by
# every job in the end: more of it would only make that longer.
BURST, TRICKLE, MOST_TRICKLED = 20, 3, 60
PAUSE_S = 0.1
# A driver is also struck while it starts, wherever it is by then.
EARLY, EARLY_S = 0.25, 25.0
DELAY_S = 1.5
# How often all executors are struck at once.
ALL = 0.5


class StruckDriver(Protocol):
    """All jobs of a family, in one process that can be killed and started again."""

    @property
    def kinds(self) -> Sequence[str]: ...

    @property
    def directory(self) -> Path: ...

    @property
    def log_text(self) -> str: ...

    def start(self, master: str, *, once: bool) -> "subprocess.Popen[bytes]": ...

    def write(self, count: int) -> None: ...

    def progress(self) -> Mapping[str, int]:
        """Grows with every micro-batch of a kind."""

    def in_work(self) -> set[str]:
        """Kinds that are within a micro-batch, or have records before them."""

    def restarts(self) -> Mapping[str, int]:
        """How often the job of a kind failed and was started again within its driver."""


@dataclass(slots=True, kw_only=True)
class Strikes:
    cluster: StandaloneCluster
    driver: StruckDriver
    dice: random.Random
    # By what was struck, and by what was struck and a kind that was in work then.
    struck: Counter[str] = field(default_factory=Counter)
    in_work: Counter[tuple[str, str]] = field(default_factory=Counter)
    ended_by_itself: int = 0
    _began_s: float = field(default_factory=time.monotonic)

    def run(
        self, *, executors: int, python_workers: int, drivers: int, minutes: float = math.inf
    ) -> None:
        """No blow falls after so many minutes; what was struck is compared all the same."""
        end_s = time.monotonic() + 60 * minutes
        wanted = Counter({"executor": executors, "python worker": python_workers})
        wanted["driver"] = drivers
        process = self.driver.start(self.cluster.url, once=False)
        try:
            while left := sorted((wanted - self.struck).elements()):
                so_far = f"{self.struck.total()} of {wanted.total()}"
                if time.monotonic() > end_s:
                    self._tell(f"time is up after {so_far} kills")
                    break
                blow = self.dice.choice(left)
                self._tell(f"{so_far} killed; waits for work, to strike: {blow}")
                process = self._struck(process, blow, left.count(blow))
        finally:
            _kill_driver(process, with_java=True)
        self._tell("a last driver applies what is left")
        done = self.driver.start(self.cluster.url, once=True)
        try:
            assert self._ended(done) == 0, self._state(done)
        finally:
            _kill_driver(done, with_java=True)
        self._tell("the results are compared with the model")

    def _struck(
        self, process: "subprocess.Popen[bytes]", blow: str, left: int
    ) -> "subprocess.Popen[bytes]":
        """The process that runs after the blow, which falls on at most `left`."""
        struck = 0
        while not struck:
            if process.poll() is not None:
                self.ended_by_itself += 1
                self._tell(f"the driver ended by itself: {self.driver.log_text[-2000:]}")
                process = self.driver.start(self.cluster.url, once=False)
            self._let_work(process, blow)
            busy = self.driver.in_work()
            how = ""
            if blow == "driver":
                with_java = self.dice.random() < 0.5
                how = " with its JVM" if with_java else " without its JVM"
                _kill_driver(process, with_java=with_java)
                struck = int(process.returncode == -signal.SIGKILL)
            else:
                struck = self._kill_some(blow, left)
        self.struck[blow] += struck
        self.in_work.update({(blow, kind): struck for kind in busy})
        self._tell(f"struck: {struck} {blow}{how}, in work: {', '.join(sorted(busy)) or 'nothing'}")
        self._tell(f"progress: {_listed(self.driver.progress())}")
        if blow == "driver":
            process = self.driver.start(self.cluster.url, once=False)
        return process

    def _let_work(self, process: "subprocess.Popen[bytes]", blow: str) -> None:
        self.driver.write(BURST)
        if blow == "driver" and self.dice.random() < EARLY:
            end_s = time.monotonic() + self.dice.random() * EARLY_S
            self._write_until(process, lambda: time.monotonic() > end_s)
            return
        kind, wanted = self.dice.choice(list(self.driver.kinds)), self.dice.randrange(1, 3)
        seen = {self.driver.progress().get(kind, 0)}

        def has_come_far() -> bool:
            seen.add(self.driver.progress().get(kind, 0))
            return len(seen) > wanted

        self._write_until(process, has_come_far, kind)
        threading.Event().wait(self.dice.random() * DELAY_S)

    def _write_until(
        self,
        process: "subprocess.Popen[bytes]",
        condition: Callable[[], bool],
        kind: str | None = None,
    ) -> None:
        """Or until the driver ends. `kind` is the one that is waited for."""
        give_up_s = time.monotonic() + TIMEOUT_S
        tell_s = time.monotonic() + TELL_S
        pause, left = threading.Event(), MOST_TRICKLED
        while process.poll() is None and not condition():
            assert time.monotonic() < give_up_s, self._state(process)
            if time.monotonic() > tell_s:
                tell_s += TELL_S
                told = f"waits for {kind or 'the time'}; {_listed(self.driver.progress())}"
                self._tell(f"{told}; restarts: {_listed(self.driver.restarts())}")
            if left > 0:
                self.driver.write(TRICKLE)
                left -= TRICKLE
            elif kind is not None and kind not in self.driver.in_work():
                # It has applied everything, and a micro-batch more is wanted. Another kind may be
                # behind: one that failed waits for minutes before it is started again.
                left = MOST_TRICKLED
            pause.wait(PAUSE_S)

    def _ended(self, process: "subprocess.Popen[bytes]") -> int:
        """Its exit code. What is left takes its time, so that only one that stands still is given
        up."""
        seen, give_up_s = self.driver.progress(), time.monotonic() + TIMEOUT_S
        while True:
            try:
                return process.wait(TELL_S)
            except subprocess.TimeoutExpired:
                now = self.driver.progress()
                self._tell(f"applies what is left; {_listed(now)}")
            if now != seen:
                seen, give_up_s = now, time.monotonic() + TIMEOUT_S
            assert time.monotonic() < give_up_s, self._state(process)

    def _tell(self, text: str) -> None:
        tell(f"{time.monotonic() - self._began_s:6.0f} s  {text}")

    def _state(self, process: "subprocess.Popen[bytes]") -> str:
        """What to look at where nothing goes on."""
        pids = [process.pid, *descendants(process.pid)]
        for number in range(self.cluster.workers):
            pids += descendants(self.cluster.worker_pid(number))
        running = [f"{pid}: {b' '.join(words(pid, 'cmdline'))[-200:]!r}" for pid in pids]
        master = (self.cluster.directory / "master.log").read_text(errors="replace")
        parts = [self.driver.log_text[-8000:], "\n".join(running), master[-3000:]]
        return f"{_listed(self.driver.progress())}\n" + "\n\n".join(parts)

    def _kill_some(self, blow: str, left: int) -> int:
        """An executor's JVM, with its Python workers left to find out, or all of them at the same
        time; or one of the Python workers. Says how many."""
        found = [
            pid
            for number in range(self.cluster.workers)
            for pid in descendants(self.cluster.worker_pid(number))
        ]
        if blow == "executor":
            chosen = [pid for pid in found if EXECUTOR in words(pid, "cmdline")]
        else:
            python = {pid for pid in found if PYTHON_WORKER in words(pid, "cmdline")}
            known = parents()
            # Those that run tasks; their parent is the daemon that they are forked from.
            chosen = sorted(pid for pid in python if known.get(pid) in python)
        if blow == "executor" and len(chosen) <= left and self.dice.random() < ALL:
            return sum(map(kill, chosen))
        return int(bool(chosen) and kill(self.dice.choice(chosen)))

    def table(self) -> str:
        """For docs/reliability.md."""
        restarts = self.driver.restarts()
        rows = [
            "| job | executors, in work | Python workers, in work | drivers, in work | restarts |"
        ]
        rows.append("|---|---|---|---|---|")
        for kind in self.driver.kinds:
            cells = [
                f"{self.struck[blow]}, {self.in_work[blow, kind]} in work"
                for blow in ("executor", "python worker", "driver")
            ]
            rows.append(f"| {kind} | {' | '.join(cells)} | {restarts.get(kind, 0)} |")
        return "\n".join(rows)


def put_behind_drivers(cluster: StandaloneCluster) -> None:
    """What the workers start from now on inherits it from the thread that starts it."""
    for number in range(cluster.workers):
        for thread in Path(f"/proc/{cluster.worker_pid(number)}/task").iterdir():
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), NICENESS)


def _kill_driver(process: "subprocess.Popen[bytes]", *, with_java: bool) -> None:
    """Without its JVM: that notices that its Python is gone, and ends a little later."""
    if process.poll() is None:
        below = descendants(process.pid) if with_java else []
        for pid in (process.pid, *below):
            kill(pid)
    process.wait()


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "none"


def tell(text: str) -> None:
    """A long run shows how far it is; pytest's `-s` lets it through."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
