"""Waiting for a condition, by the real clock. Shell.

Nothing sleeps for a guessed time: callers name a condition, and a timeout reports the last state.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.002
_LONGEST_POLL_S: Final = 0.05

T = TypeVar("T")


class WaitedInVain(AssertionError):
    """A condition did not come true in time."""


def wait_until(
    condition: Callable[[], T | None],
    what: str,
    timeout_s: float = TIMEOUT_S,
    describe: Callable[[], str] | None = None,
) -> T:
    """The first true result of `condition`; `describe` gives the last state on a timeout."""
    deadline_s = time.monotonic() + timeout_s
    pause, pause_s = threading.Event(), _POLL_S
    while not (answer := condition()):
        if time.monotonic() > deadline_s:
            last = f"; last seen: {describe()}" if describe is not None else ""
            raise WaitedInVain(f"waited {timeout_s:g} s in vain until {what}{last}")
        pause.wait(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)
    return answer
