"""Processes that make the load, and what they say they did. Shell.

`load_job` is what runs in them. The clock of their answers is the system's monotonic one, so that
what several of them did at once can be put together.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple

from bench.peers.percentiles import Percentiles


class Moved(NamedTuple):
    """When, how many records, and how many bytes of values."""

    started: float
    ended: float
    messages: int
    bytes: int

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def mb_s(self) -> float:
        return self.bytes / self.seconds / 1e6


def together(moved: Sequence[Moved]) -> Moved:
    """What several did at the same time, as one."""
    return Moved(
        min(each.started for each in moved),
        max(each.ended for each in moved),
        sum(each.messages for each in moved),
        sum(each.bytes for each in moved),
    )


class Load:
    """One process. `ask` and `answer` are apart so that several can work at once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.peers.load_job"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> "Load":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, job: str, **arguments: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"job": job, **arguments}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a load process ended with {self._process.wait()}")
        found = json.loads(line)
        if isinstance(found, str):
            raise RuntimeError(found)
        assert isinstance(found, list)
        return found

    def moved(self, job: str, **arguments: object) -> Moved:
        self.ask(job, **arguments)
        return Moved(*self.answer())

    def latency(self, job: str, **arguments: object) -> Percentiles:
        self.ask(job, **arguments)
        return Percentiles(*self.answer())


def loads(stack: ExitStack, count: int) -> list[Load]:
    return [stack.enter_context(Load()) for _ in range(count)]
