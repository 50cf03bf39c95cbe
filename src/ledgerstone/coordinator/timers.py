"""Deadlines by name, the earliest first. Pure. Owned by a shard, used by its groups."""

import enum
import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

# Below this many entries a heap full of cancelled timers costs nothing worth saving.
_SMALL_HEAP: Final = 64


class TimerKind(enum.Enum):
    JOIN = "join"  # the join phase of a group ends
    SYNC = "sync"  # members that have not synced are expelled
    SESSION = "session"  # a member, or a member id handed out, has been silent for too long
    OFFSET_EXPIRY = "offset-expiry"  # the whole shard looks for expired offsets


class Timer(NamedTuple):
    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Timers:
    """At most one deadline for each timer; setting it again moves it.

    A heartbeat moves a deadline further away thousands of times before it is ever reached. So the
    heap keeps the old entry, and the true deadline is looked up only when that entry comes up.
    """

    __slots__ = ("_deadlines", "_heap", "_next_number")

    def __init__(self) -> None:
        self._deadlines: dict[Timer, int] = {}
        # The number keeps timers of one deadline in the order in which they were set.
        self._heap: list[tuple[int, int, Timer]] = []
        self._next_number = 0

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._deadlines

    def __iter__(self) -> Iterator[Timer]:
        return iter(self._deadlines)

    def schedule(self, timer: Timer, deadline_ms: int) -> None:
        previous_ms = self._deadlines.get(timer)
        self._deadlines[timer] = deadline_ms
        if previous_ms is None or deadline_ms < previous_ms:
            self._push(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        self._deadlines.pop(timer, None)
        if len(self._heap) > 2 * len(self._deadlines) + _SMALL_HEAP:
            self._rebuild()

    @property
    def next_deadline_ms(self) -> int | None:
        while self._heap:
            deadline_ms, _, timer = self._heap[0]
            true_deadline_ms = self._deadlines.get(timer)
            if true_deadline_ms == deadline_ms:
                return deadline_ms
            heapq.heappop(self._heap)
            if true_deadline_ms is not None and true_deadline_ms > deadline_ms:
                self._push(timer, true_deadline_ms)
        return None

    def pop_due(self, now_ms: int) -> Timer | None:
        """The earliest timer whose deadline has come; it is no longer set."""
        deadline_ms = self.next_deadline_ms
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        _, _, timer = heapq.heappop(self._heap)
        del self._deadlines[timer]
        return timer

    def _push(self, timer: Timer, deadline_ms: int) -> None:
        heapq.heappush(self._heap, (deadline_ms, self._next_number, timer))
        self._next_number += 1

    def _rebuild(self) -> None:
        self._heap.clear()
        for timer, deadline_ms in self._deadlines.items():
            self._push(timer, deadline_ms)
