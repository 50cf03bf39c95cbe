"""What was recorded in the last windows of time; the arithmetic is that of Kafka's `SampledStat`.

Pure. Throttle times depend on every detail of it, so all of them are kept: a ring with one slot
more than there are samples; a slot expires by its *last* event; an expired slot is not dropped but
starts anew, empty. README.md has the rules and the proof.

The naive ring costs 5 µs a record. Here the sum of all slots, the oldest start and the earliest
possible expiry are kept, and the ring is touched once a window.
"""

from typing import Final

# Before the first record: any time is later.
_NEVER_MS: Final = -(1 << 62)


class Windows:
    """Values are whole numbers, so that sums are exact whatever their order.

    Invariant: `_others` is the sum of all slots but the current one."""

    __slots__ = (
        "_current",
        "_ends_ms",
        "_expire_ms",
        "_last_ms",
        "_lasts",
        "_least_ms",
        "_oldest_ms",
        "_others",
        "_purge_ms",
        "_slots",
        "_starts",
        "_sums",
        "_total",
        "_window_ms",
    )

    def __init__(self, samples: int, window_ms: int) -> None:
        self._slots = samples + 1
        self._window_ms = window_ms
        self._expire_ms = samples * window_ms
        self._least_ms = (samples - 1) * window_ms
        # The ring. What is in it of the current slot is brought up to date when it ends.
        self._starts: list[int] = []
        self._lasts: list[int] = []
        self._sums: list[int] = []
        self._current = -1
        self._ends_ms = _NEVER_MS
        self._last_ms = _NEVER_MS
        self._total = 0
        self._others = 0
        self._oldest_ms = 0
        self._purge_ms = 0

    def record(self, value: int, now_ms: int) -> None:
        """A negative value takes back what was recorded before."""
        if now_ms >= self._ends_ms:
            self._advance(now_ms)
        self._total += value
        self._last_ms = now_ms

    def throttle_ms(self, value: int, bound: float, now_ms: int, longest_ms: int) -> int:
        """Records; then how long until the rate is back within its bound, at most `longest_ms`.

        0 while it is, and also where less than half a millisecond is missing. Halves are rounded
        up, as in Java; Python's `round` does not. Written out, as every request comes here."""
        if now_ms >= self._ends_ms:
            self._advance(now_ms)
        self._total += value
        self._last_ms = now_ms
        if now_ms >= self._purge_ms:
            self._purge(now_ms)
        elapsed_ms = now_ms - self._oldest_ms
        if elapsed_ms < self._least_ms:
            elapsed_ms = self._least_ms + elapsed_ms % self._window_ms
        rate = self._total / ((elapsed_ms or 1) / 1000.0)
        if rate <= bound:
            return 0
        if not bound:
            # A rate of connections may be 0; as in Java, the quotient is infinite.
            return longest_ms
        return int(min((rate - bound) / bound * (elapsed_ms or 1) + 0.5, longest_ms))

    @property
    def last_ms(self) -> int:
        """Of the last record."""
        return self._last_ms

    def total(self, now_ms: int) -> int:
        """Of all windows that have not expired."""
        if now_ms >= self._purge_ms:
            self._purge(now_ms)
        return self._total

    def elapsed_ms(self, now_ms: int) -> int:
        """The time over which the total is averaged: windows that have not been yet count as empty
        ones, so that a first burst is not taken for a rate that lasts."""
        if now_ms >= self._purge_ms:
            self._purge(now_ms)
        elapsed_ms = now_ms - self._oldest_ms
        if elapsed_ms < self._least_ms:
            elapsed_ms = self._least_ms + elapsed_ms % self._window_ms
        return elapsed_ms or 1

    def _settle(self) -> None:
        """Writes what is known of the current slot into the ring."""
        self._lasts[self._current] = self._last_ms
        self._sums[self._current] = self._total - self._others

    def _advance(self, now_ms: int) -> None:
        if self._starts:
            self._settle()
        self._current = current = (self._current + 1) % self._slots
        if current == len(self._starts):
            self._starts.append(now_ms)
            self._lasts.append(now_ms)
            self._sums.append(0)
        else:
            self._reset(current, now_ms)
        self._look_again()

    def _reset(self, slot: int, now_ms: int) -> None:
        self._starts[slot] = self._lasts[slot] = now_ms
        self._sums[slot] = 0

    def _purge(self, now_ms: int) -> None:
        if not self._starts:
            self._advance(now_ms)
            return
        self._settle()
        for slot, last_ms in enumerate(self._lasts):
            if now_ms - last_ms >= self._expire_ms:
                self._reset(slot, now_ms)
        self._look_again()

    def _look_again(self) -> None:
        current = self._current
        self._last_ms = self._lasts[current]
        self._ends_ms = self._starts[current] + self._window_ms
        self._total = sum(self._sums)
        self._others = self._total - self._sums[current]
        self._oldest_ms = min(self._starts)
        self._purge_ms = min(self._lasts) + self._expire_ms
