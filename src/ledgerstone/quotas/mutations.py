"""What one request may change of the cluster's topics. Pure.

Strict, for versions whose clients understand it: while the bucket is overdrawn nothing is taken,
and what asks for it is refused. Permissive, for older ones: everything is taken, and the client
waits.
"""

from collections.abc import Callable

from ledgerstone.errors import ThrottlingQuotaExceeded
from ledgerstone.quotas.counters import MutationCounter


class MutationQuota:
    """Of one request. `take` is called for each topic; `throttle_ms` when the answer leaves."""

    __slots__ = ("_counter", "_is_strict", "_now_ms", "_recorded_ms", "_throttle_ms")

    def __init__(
        self, counter: MutationCounter, now_ms: Callable[[], int], *, is_strict: bool
    ) -> None:
        self._counter = counter
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._recorded_ms = 0

    def take(self, partitions: int) -> None:
        """ThrottlingQuotaExceeded: not now."""
        now_ms = self._now_ms()
        counter = self._counter
        if self._is_strict:
            if wait_ms := counter.throttle_ms(now_ms):
                self._note(wait_ms, now_ms)
                raise ThrottlingQuotaExceeded(f"too many changes: try again in {wait_ms} ms")
            counter.take(partitions, now_ms)
            return
        counter.take(partitions, now_ms)
        if wait_ms := counter.throttle_ms(now_ms):
            self._note(wait_ms, now_ms)

    def _note(self, wait_ms: int, now_ms: int) -> None:
        self._throttle_ms, self._recorded_ms = wait_ms, now_ms

    @property
    def counter(self) -> MutationCounter:
        return self._counter

    def throttle_ms(self) -> int:
        """What is left of it: the answer leaves later, once the change is committed."""
        if not self._throttle_ms:
            return 0
        return max(0, self._throttle_ms - (self._now_ms() - self._recorded_ms))
