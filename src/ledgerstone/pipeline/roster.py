"""Decides which definitions of a directory run: what to start, to stop, to start again. Pure.

A definition that fails is started again, later and later; one that is not valid waits for its file
to change. A file that changes, or goes, stops its run after the transaction it is in.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass

FIRST_WAIT_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 300_000
# A run that lasted this long was all right; the next failure is the first again.
_GOOD_MS: Final = 60_000


class ServedState(Enum):
    RUNNING = "running"
    STOPPING = "stopping"  # its file has changed or is gone
    WAITING = "waiting"  # to be started again, after a failure
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"  # for good: it was to run once
    INVALID = "invalid"  # until its file changes


class StartRun(NamedTuple):
    path: str


class StopRun(NamedTuple):
    path: str


@dataclass(slots=True, kw_only=True)
class Served:
    """One file."""

    path: str
    digest: str
    state: ServedState = ServedState.WAITING
    failures: int = 0  # one after the other
    started_ms: int = 0
    next_ms: int = 0  # when it is started again
    error: str | None = None

    @property
    def is_running(self) -> bool:
        return self.state in (ServedState.RUNNING, ServedState.STOPPING)


class DefinitionRoster:
    def __init__(self, *, once: bool) -> None:
        self._once = once
        self._is_stopping = False
        self.served: dict[str, Served] = {}

    def look(self, files: Mapping[str, str], now_ms: int) -> list[StartRun | StopRun]:
        """`files` are the definitions there are now, each with a digest of its content."""
        found: list[StartRun | StopRun] = []
        if self._is_stopping:
            return found
        for path in sorted(set(self.served) - set(files)):
            found += self._drop(self.served[path])
        for path in sorted(files):
            found += self._see(path, files[path], now_ms)
        return found

    def _drop(self, each: Served) -> list[StopRun]:
        each.digest = ""
        if each.state is ServedState.RUNNING:
            each.state = ServedState.STOPPING
            return [StopRun(each.path)]
        if not each.is_running:
            del self.served[each.path]
        return []

    def _see(self, path: str, digest: str, now_ms: int) -> list[StartRun | StopRun]:
        each = self.served.get(path)
        if each is None:
            each = self.served[path] = Served(path=path, digest=digest)
        elif each.digest != digest:
            is_first = bool(each.digest)
            each.digest = digest
            if each.is_running:
                each.state = ServedState.STOPPING
                return [StopRun(path)] if is_first else []
            # Whatever was wrong may be right now.
            each.state, each.failures, each.next_ms = ServedState.WAITING, 0, now_ms
        if each.state is ServedState.WAITING and each.next_ms <= now_ms:
            each.state, each.started_ms, each.error = ServedState.RUNNING, now_ms, None
            return [StartRun(path)]
        return []

    def invalid(self, path: str, error: str) -> None:
        each = self.served[path]
        each.state, each.error = ServedState.INVALID, error

    def ended(self, path: str, now_ms: int, error: str | None = None) -> None:
        each = self.served[path]
        was_stopping = each.state is ServedState.STOPPING
        each.error = error
        if was_stopping and not each.digest:
            del self.served[path]
        elif self._is_stopping:
            each.state = ServedState.STOPPED if error is None else ServedState.FAILED
        elif was_stopping:
            each.state, each.failures, each.next_ms = ServedState.WAITING, 0, now_ms
        elif self._once:
            each.state = ServedState.FINISHED if error is None else ServedState.FAILED
        else:
            if now_ms - each.started_ms >= _GOOD_MS:
                each.failures = 0
            each.state = ServedState.WAITING
            each.next_ms = now_ms + min(FIRST_WAIT_MS << min(each.failures, 20), LONGEST_WAIT_MS)
            each.failures += 1

    def stop(self) -> list[StopRun]:
        """All of them; nothing is started any more."""
        self._is_stopping = True
        found = []
        for each in self.served.values():
            if each.state is ServedState.RUNNING:
                found.append(StopRun(each.path))
            elif each.state is ServedState.WAITING:
                each.state = ServedState.STOPPED
        return found

    @property
    def is_done(self) -> bool:
        """Whether nothing runs, and nothing will."""
        if any(each.is_running for each in self.served.values()):
            return False
        if self._is_stopping:
            return True
        waits = any(each.state is ServedState.WAITING for each in self.served.values())
        return self._once and not waits

    @property
    def has_failed(self) -> bool:
        bad = (ServedState.FAILED, ServedState.INVALID)
        return any(each.state in bad for each in self.served.values())
