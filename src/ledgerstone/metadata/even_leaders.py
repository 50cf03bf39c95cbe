"""Who leads which partition, so that every broker leads equally often. Pure.

Striping lets racks of different sizes lead equally often, and so their brokers not. The replicas
stay as they were placed; only which of them comes first is chosen here. First each partition goes
to the replica that leads least so far. What is then uneven is evened out by moving leaderships
along chains: a partition of the busiest broker to another replica, one of that to a third, down to
a broker that leads two fewer.
"""

from collections import deque
from collections.abc import Iterator, Sequence


def even_leaders(candidates: Sequence[Sequence[int]]) -> list[int]:
    """The leader of each partition, one of its candidates. As even as they allow."""
    leading = _Leading(candidates)
    while leading.even_out():
        pass
    return leading.leaders


class _Leading:
    """Invariant: `_led[broker]` are the partitions that `leaders` gives to the broker."""

    __slots__ = ("_candidates", "_led", "leaders")

    def __init__(self, candidates: Sequence[Sequence[int]]) -> None:
        self._candidates = candidates
        # A dict keeps the order: the same input gives the same leaders.
        self._led: dict[int, dict[int, None]] = {}
        self.leaders: list[int] = []
        for replicas in candidates:
            for broker_id in replicas:
                self._led.setdefault(broker_id, {})
        for partition, replicas in enumerate(candidates):
            leader = min(replicas, key=self._count)
            self.leaders.append(leader)
            self._led[leader][partition] = None

    def even_out(self) -> bool:
        """One leadership fewer for some broker and one more for another that had two fewer."""
        return any(self._relieve(busy) for busy in sorted(self._led, key=self._count, reverse=True))

    def _count(self, broker_id: int) -> int:
        return len(self._led[broker_id])

    def _relieve(self, busy: int) -> bool:
        """Along the shortest chain, found breadth first."""
        came_by: dict[int, int] = {}  # The partition that moves to the broker.
        waiting = deque([busy])
        while waiting:
            broker_id = waiting.popleft()
            for partition, other in self._moves_from(broker_id):
                if other == busy or other in came_by:
                    continue
                came_by[other] = partition
                if self._count(other) <= self._count(busy) - 2:
                    self._move_along(came_by, other, busy)
                    return True
                waiting.append(other)
        return False

    def _moves_from(self, broker_id: int) -> Iterator[tuple[int, int]]:
        for partition in self._led[broker_id]:
            for other in self._candidates[partition]:
                yield partition, other

    def _move_along(self, came_by: dict[int, int], end: int, busy: int) -> None:
        broker_id = end
        while broker_id != busy:
            partition = came_by[broker_id]
            before = self.leaders[partition]
            self.leaders[partition] = broker_id
            del self._led[before][partition]
            self._led[broker_id][partition] = None
            broker_id = before
