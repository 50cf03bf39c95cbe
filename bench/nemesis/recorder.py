"""The history as it happens: kept for the checker and written as JSON lines. Shell."""

import threading
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from ledgerstone.sim.history.lines import line_of
from ledgerstone.sim.history.operations import (
    ClientHistory,
    Operation,
    OpOutcome,
    Sent,
    TopicFacts,
    TxnEnded,
)


def now_ms() -> float:
    """The clock of every line."""
    return round(time.monotonic() * 1000, 1)


class Recorder:
    """Used by all clients at once."""

    def __init__(self, path: Path) -> None:
        self.history = ClientHistory()
        self.counts: Counter[str] = Counter()
        # What the driver itself saw, and no correct cluster does.
        self.complaints: list[str] = []
        self.acked_ms = now_ms()
        # The longest time without an acknowledged record since `begin_gap`.
        self.longest_gap_ms = 0.0
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._file.close()

    def note(self, *operations: Operation) -> None:
        text = "".join(line_of(each) + "\n" for each in operations)
        with self._lock:
            self.history.operations.extend(operations)
            self._file.write(text)
            for each in operations:
                self._count(each)

    def topic(self, name: str, *, compacted: bool = False) -> None:
        # Clocks jump here: when a tombstone may go is not judged, only whether a key comes back.
        self.note(TopicFacts(topic=name, compacted=compacted, delete_retention_ms=0))

    def complain(self, text: str) -> None:
        with self._lock:
            self.complaints.append(text)

    def _count(self, operation: Operation) -> None:
        match operation:
            case Sent(outcome=outcome, txn=txn):
                self.counts[f"records {outcome}"] += 1
                if outcome is OpOutcome.OK and txn is None:
                    now = now_ms()
                    self.longest_gap_ms = max(self.longest_gap_ms, now - self.acked_ms)
                    self.acked_ms = now
            case TxnEnded(outcome=outcome, commits=commits):
                self.counts[f"{'commits' if commits else 'aborts'} {outcome}"] += 1
            case _:
                self.counts[type(operation).__name__] += 1

    def begin_gap(self) -> None:
        with self._lock:
            self.longest_gap_ms = 0.0

    @property
    def acked(self) -> int:
        return self.counts["records ok"]
