"""Carries a plan of moves out, some at a time, and says how far it is. Shell over a `Client`.

The controller does the work. If this process ends in between, the moves it has asked for go on; a
second run plans from where they lead, and does the rest.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster_admin import (
    Reassignment,
    elect_preferred,
    list_reassignments,
    reassign,
)
from ledgerstone.cluster.moves import AssignedPartition, Move
from ledgerstone.types import TopicPartition

# Partitions on the move at a time: enough to keep disks busy, few enough for clients to get on.
AT_ONCE: Final = 16
_LOOK_S: Final = 0.2
_LINE_S: Final = 1.0
_NAMED: Final = 4


def assigned_partitions(client: Client) -> list[AssignedPartition]:
    """All partitions, with the replicas that they will have once moves under way are over."""
    moving = list_reassignments(client)
    return [
        AssignedPartition(
            topic.name,
            info.partition,
            _target(info.replicas, moving.get(TopicPartition(topic.name, info.partition))),
        )
        for topic in client.all_topics()
        for info in topic.partitions.values()
    ]


def _target(replicas: tuple[int, ...], move: Reassignment | None) -> tuple[int, ...]:
    if move is None:
        return replicas
    return tuple(each for each in move.replicas if each not in move.removing)


class Moving:
    """`carry_out` returns when every move is over."""

    def __init__(
        self,
        client: Client,
        say: Callable[[str], None],
        *,
        at_once: int = AT_ONCE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._say = say
        self._at_once = at_once
        self._sleep = sleep
        self._said_s = 0.0
        self._said = ""

    def carry_out(self, moves: Sequence[Move]) -> None:
        waiting = iter(moves)
        asked: set[TopicPartition] = set()
        under_way: set[TopicPartition] = set()
        while True:
            started = self._start(waiting, self._at_once - len(under_way))
            asked |= started
            under_way |= started
            if not under_way:
                break
            under_way &= list_reassignments(self._client).keys()
            self._report(len(moves), len(asked) - len(under_way), under_way)
            if under_way:
                self._sleep(_LOOK_S)
        elect_preferred(self._client, sorted(asked))

    def _start(self, waiting: Iterator[Move], room: int) -> set[TopicPartition]:
        wanted: dict[TopicPartition, Sequence[int]] = {}
        while len(wanted) < room and (move := next(waiting, None)) is not None:
            wanted[TopicPartition(move.topic, move.partition)] = move.after
        if wanted:
            reassign(self._client, wanted)
        return set(wanted)

    def wait_for(
        self, is_over: Callable[[], bool], what: str, *, at_most_s: float | None = None
    ) -> None:
        """Polls; says what it waits for, at once and every few seconds."""
        end_s = None if at_most_s is None else time.monotonic() + at_most_s
        while not is_over() and (end_s is None or time.monotonic() < end_s):
            self._line(f"waits for {what}")
            self._sleep(_LOOK_S)

    def _report(self, total: int, done: int, under_way: Collection[TopicPartition]) -> None:
        names = [str(each) for each in sorted(under_way)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        now = f"; moving {', '.join(names[:_NAMED])}{more}" if names else ""
        self._line(f"moved {done} of {total} partitions{now}", is_last=done == total)

    def _line(self, text: str, *, is_last: bool = False) -> None:
        now_s = time.monotonic()
        pause_s = _LINE_S if text != self._said else 5 * _LINE_S
        if is_last or now_s - self._said_s >= pause_s:
            self._said, self._said_s = text, now_s
            self._say(text)
