"""Denials as they may be written down: a few at once, the rest counted. Pure.

Somebody who is refused ten thousand times a second must not fill a disk or slow others down. In
each second the first few denials get a line of their own. Those after them are counted by who was
refused what, and the counts are written when the second is over.
"""

from typing import Final, NamedTuple

WINDOW_MS: Final = 1000
LINES_PER_WINDOW: Final = 10
# Of these, what counts of the second before may take.
_COUNTED_LINES: Final = 5
_MOST_COUNTED: Final = 1000


class Denial(NamedTuple):
    """`who` is principal and host together; one of None stands for all that were not told apart."""

    principal: str | None
    host: str | None
    api: str
    operation: str
    resource: str


_OTHERS: Final = Denial(None, None, "", "", "")


class CountedDenials(NamedTuple):
    denial: Denial
    times: int


class DenialStorm:
    __slots__ = ("_counts", "_left", "_window_end_ms")

    def __init__(self) -> None:
        self._window_end_ms = 0
        self._left = LINES_PER_WINDOW
        self._counts: dict[Denial, int] = {}

    @property
    def next_deadline_ms(self) -> int | None:
        """When counts are to be written."""
        return self._window_end_ms if self._counts else None

    def denied(self, denial: Denial, now_ms: int) -> list[CountedDenials]:
        """What is to be written now."""
        due = self.due(now_ms)
        if now_ms >= self._window_end_ms:
            self._window_end_ms = now_ms + WINDOW_MS
            self._left = LINES_PER_WINDOW - len(due)
        if self._left > 0:
            self._left -= 1
            return [*due, CountedDenials(denial, 1)]
        if denial not in self._counts and len(self._counts) >= _MOST_COUNTED:
            denial = _OTHERS
        self._counts[denial] = self._counts.get(denial, 0) + 1
        return due

    def due(self, now_ms: int) -> list[CountedDenials]:
        """The counts of a second that is over: the largest, and one for all the others."""
        if not self._counts or now_ms < self._window_end_ms:
            return []
        return self.rest()

    def rest(self) -> list[CountedDenials]:
        """What is counted and not written, whether its second is over or not."""
        # By their own order where counts are equal, so that a run can be repeated.
        found = [CountedDenials(*each) for each in self._counts.items()]
        found.sort(key=lambda each: (each.denial == _OTHERS, -each.times))
        self._counts.clear()
        named, rest = found[:_COUNTED_LINES], found[_COUNTED_LINES:]
        if rest:
            named.append(CountedDenials(_OTHERS, sum(each.times for each in rest)))
        return named
