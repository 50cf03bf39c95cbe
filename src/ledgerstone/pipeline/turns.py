"""Whose jobs are on Spark, where many pipelines share a session. Shell: threads wait here.

Spark divides cores evenly among pools, and where two have as many tasks as each other, it takes the
one whose name comes first. With more pipelines than cores, those with late names would get nothing
for as long as the others have records. So there are never more jobs than cores, and whoever has
waited longest is next: each job that is there then gets a core.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._taken = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @contextmanager
    def one_of(self, most: int) -> Iterator[None]:
        """Waits until it is the caller's turn, and fewer than `most` have theirs."""
        me = object()
        with self._changed:
            self._waiting.append(me)
            try:
                self._changed.wait_for(lambda: self._waiting[0] is me and self._taken < most)
                self._taken += 1
            finally:
                self._waiting.remove(me)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._taken -= 1
                self._changed.notify_all()
