"""What a replica measures of itself: elections, commits, what it has applied. Pure."""

from collections import deque
from typing import Final

from ledgerstone.dataclasses import dataclass, field

# An average is over this many of the latest measurements.
_KEPT: Final = 64
# Commits that are waited for at a time; of more, only the oldest are measured.
_MOST_PENDING: Final = 1024


@dataclass(slots=True)
class Latency:
    """Of the latest events, in milliseconds."""

    count: int = 0
    _latest: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def note(self, duration_ms: int) -> None:
        self.count += 1
        self._latest.append(max(duration_ms, 0))

    @property
    def average_ms(self) -> float:
        return sum(self._latest) / len(self._latest) if self._latest else 0.0

    @property
    def max_ms(self) -> int:
        return max(self._latest, default=0)


@dataclass(slots=True)
class QuorumMeter:
    elections: Latency = field(default_factory=Latency)
    commits: Latency = field(default_factory=Latency)
    # How often this node has seen another leader, itself included.
    leader_changes: int = 0
    last_applied_timestamp_ms: int = -1
    _leader: tuple[int, int] | None = None  # (epoch, id)
    _leaderless_since_ms: int | None = None
    _pending: deque[tuple[int, int]] = field(default_factory=deque)  # (end offset, since)

    def proposed(self, end_offset: int, now_ms: int) -> None:
        """A leader has appended records up to here."""
        if len(self._pending) < _MOST_PENDING:
            self._pending.append((end_offset, now_ms))

    def looked(self, epoch: int, leader_id: int | None, high_watermark: int, now_ms: int) -> None:
        """How the replica stands now; after everything it has done."""
        while self._pending and self._pending[0][0] <= high_watermark:
            self.commits.note(now_ms - self._pending.popleft()[1])
        if leader_id is None:
            self._pending.clear()
            if self._leaderless_since_ms is None:
                self._leaderless_since_ms = now_ms
            return
        if (epoch, leader_id) != self._leader:
            self._leader = (epoch, leader_id)
            self.leader_changes += 1
            # Where the old leader was not missed, the new one took over within this step.
            if self._leaderless_since_ms is not None:
                self.elections.note(now_ms - self._leaderless_since_ms)
        self._leaderless_since_ms = None

    def applied(self, timestamp_ms: int) -> None:
        self.last_applied_timestamp_ms = timestamp_ms
