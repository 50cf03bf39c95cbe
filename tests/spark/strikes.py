"""Strikes a standalone cluster while jobs run on it: executors, their Python workers, drivers.

One driver runs all jobs of a family, so that a blow falls on each of them wherever it stands. The
seed decides what is struck and when; records are written meanwhile."""

import math
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ledgerstone.pipeline.shapes import StandaloneCluster
from tests.spark.killing import PYTHON_WORKER, descendants, kill, parents, words

EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
TIMEOUT_S = 900.0
# Written at once before each blow, and then a few at a time until it falls.
BURST, TRICKLE, MOST_TRICKLED = 60, 3, 150
PAUSE_S = 0.1
# A driver is also struck while it starts, wherever it is by then.
EARLY, EARLY_S = 0.25, 25.0
DELAY_S = 1.5


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

    def run(
        self, *, executors: int, python_workers: int, drivers: int, minutes: float = math.inf
    ) -> None:
        """No blow falls after so many minutes; what was struck is compared all the same."""
        end_s = time.monotonic() + 60 * minutes
        blows = ["executor"] * executors + ["python worker"] * python_workers
        blows += ["driver"] * drivers
        self.dice.shuffle(blows)
        process = self.driver.start(self.cluster.url, once=False)
        try:
            for number, blow in enumerate(blows):
                if time.monotonic() > end_s:
                    break
                process = self._struck(process, blow)
                tell(f"{number + 1}/{len(blows)} {blow}")
        finally:
            _kill_driver(process, with_java=True)
        done = self.driver.start(self.cluster.url, once=True)
        try:
            assert done.wait(TIMEOUT_S) == 0, self.driver.log_text[-8000:]
        finally:
            _kill_driver(done, with_java=True)

    def _struck(self, process: "subprocess.Popen[bytes]", blow: str) -> "subprocess.Popen[bytes]":
        """The process that runs after the blow."""
        is_struck = False
        while not is_struck:
            if process.poll() is not None:
                self.ended_by_itself += 1
                process = self.driver.start(self.cluster.url, once=False)
            self._let_work(process, blow)
            busy = self.driver.in_work()
            if blow == "driver":
                _kill_driver(process, with_java=self.dice.random() < 0.5)
                is_struck = process.returncode == -signal.SIGKILL
            else:
                is_struck = self._kill_one(blow)
        self.struck[blow] += 1
        self.in_work.update((blow, kind) for kind in busy)
        if blow == "driver":
            process = self.driver.start(self.cluster.url, once=False)
        return process

    def _let_work(self, process: "subprocess.Popen[bytes]", blow: str) -> None:
        self.driver.write(BURST)
        if blow == "driver" and self.dice.random() < EARLY:
            end_s = time.monotonic() + self.dice.random() * EARLY_S
            self._write_until(lambda: time.monotonic() > end_s or process.poll() is not None)
            return
        kind, wanted = self.dice.choice(list(self.driver.kinds)), self.dice.randrange(1, 3)
        seen = {self.driver.progress().get(kind, 0)}

        def has_come_far() -> bool:
            seen.add(self.driver.progress().get(kind, 0))
            return len(seen) > wanted or process.poll() is not None

        self._write_until(has_come_far)
        threading.Event().wait(self.dice.random() * DELAY_S)

    def _write_until(self, condition: Callable[[], bool]) -> None:
        give_up_s = time.monotonic() + TIMEOUT_S
        pause, left = threading.Event(), MOST_TRICKLED
        while not condition():
            assert time.monotonic() < give_up_s, self.driver.log_text[-8000:]
            if left > 0:
                self.driver.write(TRICKLE)
                left -= TRICKLE
            elif not self.driver.in_work():
                # Everything is applied and a micro-batch more is wanted.
                left = MOST_TRICKLED
            pause.wait(PAUSE_S)

    def _kill_one(self, blow: str) -> bool:
        """An executor's JVM, with its Python workers left to find out; or one of these."""
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
        return bool(chosen) and kill(self.dice.choice(chosen))

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


def _kill_driver(process: "subprocess.Popen[bytes]", *, with_java: bool) -> None:
    """Without its JVM: that notices that its Python is gone, and ends a little later."""
    if process.poll() is None:
        below = descendants(process.pid) if with_java else []
        for pid in (process.pid, *below):
            kill(pid)
    process.wait()


def tell(text: str) -> None:
    """A long run shows how far it is; pytest's `-s` lets it through."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
