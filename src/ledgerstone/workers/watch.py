"""Which workers have been silent for too long. Pure: time is handed in.

A worker says about once a second that it is at work. The owner looks four times within the time a
worker may be silent, and gives one up after four looks in a row that heard nothing. It counts looks
rather than time: an owner that was itself stopped for a while must not blame its workers.
"""

from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.types import INT64_MAX

LOOKS: Final = 4


@dataclass(slots=True)
class Watch:
    """Jobs by number. A timeout of 0 never comes. Invariant: a look is planned while a job is
    watched, unless the timeout was 0 when that began."""

    next_look_ms: int = INT64_MAX  # monotonic
    # Looks in a row that heard nothing of a job.
    _silent_looks: dict[int, int] = field(default_factory=dict)

    def begin(self, number: int, *, now_ms: int, timeout_ms: int) -> None:
        """The worker of this job has the next word."""
        self._silent_looks[number] = 0
        if timeout_ms > 0:
            self.next_look_ms = min(self.next_look_ms, now_ms + _period_ms(timeout_ms))

    def heard(self, number: int) -> None:
        if number in self._silent_looks:
            self._silent_looks[number] = 0

    def end(self, number: int) -> None:
        """The job is over, or the next word is its owner's."""
        self._silent_looks.pop(number, None)

    def look(self, *, now_ms: int, timeout_ms: int) -> list[int]:
        """The jobs to give up; each is named once."""
        if now_ms < self.next_look_ms:
            return []
        silent = []
        for number, looks in list(self._silent_looks.items()):
            self._silent_looks[number] = looks + 1
            if looks + 1 >= LOOKS and timeout_ms > 0:
                silent.append(number)
                del self._silent_looks[number]
        is_on = bool(self._silent_looks) and timeout_ms > 0
        self.next_look_ms = now_ms + _period_ms(timeout_ms) if is_on else INT64_MAX
        return silent


def _period_ms(timeout_ms: int) -> int:
    return max(timeout_ms // LOOKS, 1)
