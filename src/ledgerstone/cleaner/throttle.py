"""Limits how fast a pass reads and writes. Pure: the clock and the waiting are passed in.

The unit is bytes of map reads, copy reads and copy writes together, as
`log.cleaner.io.max.bytes.per.second` counts them.
"""

from collections.abc import Callable
from typing import Final

from ledgerstone.clock import Clock

CHECK_INTERVAL_MS: Final = 300
# A long wait is split, so that an abort is noticed in between.
_LONGEST_WAIT_MS: Final = 300


class Throttle:
    """Measures the rate over spans of at least CHECK_INTERVAL_MS, and waits off any excess."""

    __slots__ = ("_bytes_per_second", "_clock", "_observed_bytes", "_sleep_ms", "_started_ms")

    def __init__(
        self, bytes_per_second: float, *, clock: Clock, sleep_ms: Callable[[int], None]
    ) -> None:
        if not bytes_per_second > 0:
            raise ValueError(f"{bytes_per_second} bytes per second")
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep_ms = sleep_ms
        self._started_ms = clock.monotonic_ms()
        self._observed_bytes = 0

    def charge(self, size_bytes: int, check: Callable[[], None]) -> None:
        """Counts bytes that were moved; may wait, and calls `check` before each piece of a wait."""
        self._observed_bytes += size_bytes
        elapsed_ms = self._clock.monotonic_ms() - self._started_ms
        if elapsed_ms <= CHECK_INTERVAL_MS:
            return
        due_ms = round(self._observed_bytes / self._bytes_per_second * 1000)
        until_ms = self._started_ms + due_ms
        while (left_ms := until_ms - self._clock.monotonic_ms()) > 0:
            check()
            self._sleep_ms(min(left_ms, _LONGEST_WAIT_MS))
        self._started_ms = self._clock.monotonic_ms()
        self._observed_bytes = 0
