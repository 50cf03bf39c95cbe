"""Requests that wait: for an offset, for others, or for their time to run out. Pure.

A parked request names the partitions whose growth may complete it and a deadline. Whoever grows a
partition wakes it; `expire` takes those whose time has come. Each request leaves exactly once, with
its answer or with the error that its attempt raised: the others that were due do not pay for it.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.request import Encoded, Farewell, Parked, Request
from ledgerstone.types import TopicPartition

# Below this many entries a heap full of requests that have left costs nothing worth saving.
_SMALL_HEAP: Final = 64

# Called with whether time is up; None means: keep waiting (never when time is up).
Attempt = Callable[[bool], ApiMessage | Encoded | Farewell | None]
# Called with the partition that grew; whether an attempt is worth its cost.
Woken = Callable[[TopicPartition], bool]
Ended = list[tuple[Request, ApiMessage | Encoded | Farewell | Exception]]


@dataclass(slots=True)
class Waiting:
    request: Request
    attempt: Attempt
    keys: tuple[TopicPartition, ...]
    woken: Woken | None = None


@dataclass(slots=True)
class Purgatory:
    # Who waits for a partition; one that nobody waits for is not in it.
    awaited: dict[TopicPartition, dict[int, Waiting]] = field(default_factory=dict)
    _deadlines: list[tuple[int, int]] = field(default_factory=list)
    _all: dict[int, Waiting] = field(default_factory=dict)
    # By connection, as thousands may leave in the same moment. One without requests is not in it.
    _of_connection: dict[int, dict[int, Waiting]] = field(default_factory=dict)
    _next_number: int = 0

    def __len__(self) -> int:
        return len(self._all)

    def requests(self) -> Iterator[Request]:
        return (waiting.request for waiting in self._all.values())

    def park(self, request: Request, parked: Parked) -> None:
        number = self._next_number
        self._next_number += 1
        waiting = Waiting(request, parked.attempt, tuple(parked.keys), parked.woken)
        self._all[number] = waiting
        self._of_connection.setdefault(request.connection, {})[number] = waiting
        for key in waiting.keys:
            self.awaited.setdefault(key, {})[number] = waiting
        heapq.heappush(self._deadlines, (parked.deadline_ms, number))

    def wake(self, key: TopicPartition) -> Ended:
        """Tries every request that waits for this partition; returns those that are done."""
        waiting = self.awaited.get(key)
        if not waiting:
            return []
        due = [number for number, each in waiting.items() if each.woken is None or each.woken(key)]
        return self._attempt_all(due, time_is_up=False) if due else []

    def expire(self, now_ms: int) -> Ended:
        due: list[int] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            due.append(heapq.heappop(self._deadlines)[1])
        return self._attempt_all(due, time_is_up=True)

    def _attempt_all(self, numbers: list[int], *, time_is_up: bool) -> Ended:
        ended: Ended = []
        for number in numbers:
            waiting = self._all.get(number)
            if waiting is None:
                continue
            outcome: ApiMessage | Encoded | Farewell | Exception | None
            try:
                outcome = waiting.attempt(time_is_up)
            except Exception as error:  # noqa: BLE001 - the broker closes the connection it is of
                outcome = error
            if outcome is not None:
                self._remove(number, waiting)
                ended.append((waiting.request, outcome))
        return ended

    def forget(self, connection: int) -> None:
        """The connection is gone: nobody waits for its answers any more."""
        for number, waiting in list(self._of_connection.get(connection, {}).items()):
            self._remove(number, waiting)

    def _remove(self, number: int, waiting: Waiting) -> None:
        del self._all[number]
        of_connection = self._of_connection[waiting.request.connection]
        del of_connection[number]
        if not of_connection:
            del self._of_connection[waiting.request.connection]
        for key in waiting.keys:
            others = self.awaited[key]
            del others[number]
            if not others:
                del self.awaited[key]
        # A client may wait for weeks if it likes: its deadlines would be kept until then.
        if len(self._deadlines) > 2 * len(self._all) + _SMALL_HEAP:
            self._deadlines = [each for each in self._deadlines if each[1] in self._all]
            heapq.heapify(self._deadlines)

    @property
    def next_deadline_ms(self) -> int | None:
        while self._deadlines and self._deadlines[0][1] not in self._all:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None
