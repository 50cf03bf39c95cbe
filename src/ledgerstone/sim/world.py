"""One queue of events, one clock, one trace: everything in a simulated run happens here.

An event is (deadline, number, label, action). Events of the same moment run in the order they were
scheduled, so a run is a function of its seed and its script. Each step is one line of the trace;
the hash over all lines is what two runs are compared by.
"""

import hashlib
import heapq
from collections.abc import Callable

from ledgerstone.sim.dice import SeededDice


class Violation(AssertionError):
    """A checker found something that must never happen. `checker` is what shrinking keeps."""

    def __init__(self, checker: str, detail: str) -> None:
        super().__init__(f"{checker}: {detail}")
        self.checker = checker
        self.detail = detail

    def __reduce__(self) -> tuple[type["Violation"], tuple[str, str]]:
        """So that it travels between processes."""
        return Violation, (self.checker, self.detail)


class Event:
    """Scheduled; `cancel` makes it a step that never happens."""

    __slots__ = ("action", "at_ms", "label", "number")

    def __init__(self, at_ms: int, number: int, label: str, action: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.number = number
        self.label = label
        self.action: Callable[[], None] | None = action

    def __lt__(self, other: "Event") -> bool:
        return (self.at_ms, self.number) < (other.at_ms, other.number)

    def cancel(self) -> None:
        self.action = None


class Trace:
    """Lines, hashed as they come; kept only when somebody wants to read them."""

    def __init__(self, *, is_kept: bool = False) -> None:
        self.lines: list[str] | None = [] if is_kept else None
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, line: str) -> None:
        self.count += 1
        self._hash.update(line.encode() + b"\n")
        if self.lines is not None:
            self.lines.append(line)

    def digest(self) -> str:
        return f"{self.count} {self._hash.hexdigest()}"


class World:
    """Time in milliseconds since the world began. Each concern draws from dice of its own."""

    def __init__(self, seed: int | str, *, keeps_trace: bool = False) -> None:
        self.seed = seed
        self.now_ms = 0
        self.trace = Trace(is_kept=keeps_trace)
        self.after_step: list[Callable[[], None]] = []
        # How often each thing that must sometimes happen did; see `marks`.
        self.marks: dict[str, int] = {}
        self.requests = 0
        self._queue: list[Event] = []
        self._number = 0

    def dice(self, concern: str) -> SeededDice:
        """Of this concern alone, so that taking one fault away does not shift the others."""
        return SeededDice(f"{self.seed}/{concern}")

    def note(self, line: str) -> None:
        self.trace.add(f"{self.now_ms} {line}")

    def mark(self, name: str) -> None:
        self.marks[name] = self.marks.get(name, 0) + 1

    def after(self, delay_ms: int, label: str, action: Callable[[], None]) -> Event:
        return self.at(self.now_ms + max(delay_ms, 0), label, action)

    def at(self, at_ms: int, label: str, action: Callable[[], None]) -> Event:
        self._number += 1
        event = Event(at_ms, self._number, label, action)
        heapq.heappush(self._queue, event)
        return event

    def run(self, until_ms: int) -> None:
        queue = self._queue
        while queue and queue[0].at_ms <= until_ms:
            event = heapq.heappop(queue)
            action = event.action
            if action is None:
                continue
            event.action = None
            self.now_ms = event.at_ms
            self.trace.add(f"{event.at_ms} {event.label}")
            action()
            for check in self.after_step:
                check()
        self.now_ms = max(self.now_ms, until_ms)
