"""Tokens that come back at a steady rate, and may be overdrawn. Pure.

For what comes in bursts. A rate over windows stays above its bound until the window with the burst
has expired; a bucket is back as soon as the debt is paid.
"""

from ledgerstone.quotas.rate import LONGEST_THROTTLE_MS


class TokenBucket:
    """Starts full. `bound` is handed in each time: it may change, and the capacity with it."""

    __slots__ = ("_capacity_s", "_last_ms", "_tokens")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._capacity_s = samples * (window_ms / 1000.0)
        self._tokens: float | None = None
        self._last_ms = 0

    @property
    def last_ms(self) -> int:
        return self._last_ms

    def tokens(self, bound: float, now_ms: int) -> float:
        capacity = self._capacity_s * bound
        if self._tokens is None:
            self._tokens = capacity
        else:
            refilled = self._tokens + bound * ((now_ms - self._last_ms) / 1000.0)
            self._tokens = min(capacity, refilled)
        self._last_ms = now_ms
        return self._tokens

    def take(self, count: float, bound: float, now_ms: int) -> None:
        """Also what is not there."""
        self._tokens = self.tokens(bound, now_ms) - count

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long until the debt is paid; 0: there is none."""
        tokens = self.tokens(bound, now_ms)
        return 0 if tokens >= 0 else int(min(-tokens / bound * 1000 + 0.5, LONGEST_THROTTLE_MS))
