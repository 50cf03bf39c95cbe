"""A process with everything it started: what it costs, and how it is frozen and ended. Shell."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from bench.broker_process import cpu_seconds, rss_bytes

SAMPLE_S: Final = 0.05
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat behind the name: parent, and the times of children that were waited for.
_PARENT, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 13, 14


def tree(root: int) -> list[int]:
    """The process and its living descendants, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[_PARENT]), []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def tree_cpu_s(root: int) -> float:
    """User and system time of the tree so far, with that of children which ended in it."""
    return sum(cpu_s_by_process(root).values())


def cpu_s_by_process(root: int) -> dict[int, float]:
    """Of each that lives, with that of children which it waited for."""
    found: dict[int, float] = {}
    for pid in tree(root):
        with contextlib.suppress(OSError):
            found[pid] = cpu_seconds(pid)
        if fields := _stat(pid):
            ticks = int(fields[_CHILDREN_USER]) + int(fields[_CHILDREN_SYSTEM])
            found[pid] = found.get(pid, 0.0) + ticks / _TICKS_PER_S
    return found


def cpu_s_between(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """A process that ended takes nothing back: Spark's daemon waits for no worker."""
    return sum(used_s - before.get(pid, 0.0) for pid, used_s in after.items())


def tree_rss_bytes(root: int) -> int:
    total = 0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            total += rss_bytes(pid)
    return total


def signal_tree(root: int, number: signal.Signals) -> None:
    for pid in tree(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class PeakMemory:
    """The highest resident size of a tree while the block runs, seen every 50 ms."""

    def __init__(self, root: int) -> None:
        self.peak_bytes = 0
        self._root = root
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, tree_rss_bytes(self._root))
            if self._is_over.wait(SAMPLE_S):
                return


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM unwinds the stack as Ctrl-C does, so that everything that was started is ended."""

    def interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
