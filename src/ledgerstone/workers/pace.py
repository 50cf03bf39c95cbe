"""How fast a worker reads. Shell: it waits."""

import time
from typing import Final

from ledgerstone.errors import LedgerstoneError
from ledgerstone.workers.child import Line

# A long wait is cut into pieces, so that the owner is heard and answered in between.
_LONGEST_WAIT_S: Final = 0.3


class JobAborted(LedgerstoneError):
    """The owner gave the job up."""


class Pace:
    """Counts the bytes of a job, and waits where they are more than is allowed."""

    def __init__(self, line: Line, bytes_per_second: float | None) -> None:
        self._line = line
        self._bytes_per_second = bytes_per_second
        self._started_s = time.monotonic()
        self._done_bytes = 0

    def before_read(self, size_bytes: int) -> None:
        self.go_on()
        if self._bytes_per_second is not None:
            due_s = self._started_s + self._done_bytes / self._bytes_per_second
            while (left_s := due_s - time.monotonic()) > 0:
                time.sleep(min(left_s, _LONGEST_WAIT_S))
                self.go_on()
        self._done_bytes += size_bytes

    def go_on(self) -> None:
        """Says that the job goes on; raises JobAborted once it is not wanted."""
        if self._line.should_abort():
            raise JobAborted("the broker gave it up")
