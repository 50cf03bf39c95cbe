"""What each client has used of one quota, and who had to wait for it. Pure.

A counter is made when a client is first counted and forgotten after an hour of silence, as in
Kafka. A client decides about its client id, so their number is bounded: newcomers beyond it share
one counter, and nobody gets a fresh one by taking ever new names.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Generic, Protocol, TypeVar

from ledgerstone.quotas.entities import QuotaEntity
from ledgerstone.quotas.limits import CounterKey, Level, Limit, QuotaLimits
from ledgerstone.quotas.rate import LONGEST_THROTTLE_MS, rate_of
from ledgerstone.quotas.token_bucket import TokenBucket
from ledgerstone.quotas.windows import Windows

FORGET_AFTER_MS: Final = 3_600_000
MOST_COUNTERS: Final = 10_000
# The client id of those that share a counter because there are too many names.
OTHERS: Final = "(others)"
# Longer names count by their beginning.
_LONGEST_NAME: Final = 1000
# Over which throttle times are averaged: Kafka's default for metrics.
_SEEN_SAMPLES: Final = 2
_SEEN_WINDOW_MS: Final = 30_000
_SPECIFIC_LEVELS: Final = (1, 3, 4, 7)


class ThrottleNotes:
    """How long clients of a counter had to wait; for people, not for decisions."""

    __slots__ = ("_counts", "_sums", "count", "last_ms", "too_large", "total_ms", "until_ms")

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0
        self.last_ms = 0
        self.until_ms = 0
        # The largest amount that no waiting lets pass; 0: there was none.
        self.too_large = 0
        self._sums = Windows(_SEEN_SAMPLES, _SEEN_WINDOW_MS)
        self._counts = Windows(_SEEN_SAMPLES, _SEEN_WINDOW_MS)

    def note(self, throttle_ms: int, now_ms: int) -> None:
        self.count += 1
        self.total_ms += throttle_ms
        self.last_ms = throttle_ms
        self.until_ms = max(self.until_ms, now_ms + throttle_ms)
        self._sums.record(throttle_ms, now_ms)
        self._counts.record(1, now_ms)

    def average_ms(self, now_ms: int) -> float:
        count = self._counts.total(now_ms)
        return self._sums.total(now_ms) / count if count else 0.0


class Counter(Protocol):
    key: CounterKey
    bound: float
    level: Level | None
    throttled: ThrottleNotes | None

    @property
    def used_ms(self) -> int:
        """When it was last used."""
        ...


class RateCounter:
    """Bytes, nanoseconds or connections over windows of time."""

    __slots__ = ("bound", "key", "level", "longest_ms", "throttled", "windows")

    def __init__(
        self, key: CounterKey, limit: Limit, windows: Windows, longest_ms: int, scale: float
    ) -> None:
        self.key = key
        self.windows = windows
        self.longest_ms = longest_ms
        self.level = limit.level
        self.bound = limit.bound * scale
        self.throttled: ThrottleNotes | None = None

    @property
    def used_ms(self) -> int:
        return self.windows.last_ms

    def record(self, value: int, now_ms: int) -> int:
        """How long the client has to wait."""
        return self.windows.throttle_ms(value, self.bound, now_ms, self.longest_ms)

    def record_only(self, value: int, now_ms: int) -> None:
        """Counts for whoever comes next. A negative value takes back."""
        self.windows.record(value, now_ms)

    def rate(self, now_ms: int) -> float:
        return rate_of(self.windows, now_ms)


class MutationCounter:
    """Partitions that were created, added or deleted."""

    __slots__ = ("bound", "bucket", "key", "level", "throttled", "windows")

    def __init__(self, key: CounterKey, limit: Limit, bucket: TokenBucket) -> None:
        self.key = key
        self.bucket = bucket
        self.bound = limit.bound
        self.level = limit.level
        self.throttled: ThrottleNotes | None = None
        self.windows = Windows(_SEEN_SAMPLES, _SEEN_WINDOW_MS)

    @property
    def used_ms(self) -> int:
        return self.windows.last_ms

    def take(self, count: int, now_ms: int) -> None:
        self.bucket.take(count, self.bound, now_ms)
        self.windows.record(count, now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        return self.bucket.throttle_ms(self.bound, now_ms)


C = TypeVar("C", bound=Counter)


class QuotaCounters(Generic[C]):
    """Of one quota key. `scale`: counted units for each unit of the quota's value."""

    def __init__(self, make: Callable[[CounterKey, Limit], C], *, scale: float = 1.0) -> None:
        self._make = make
        self._scale = scale
        self._limits = QuotaLimits({})
        self._all: dict[CounterKey, C] = {}

    @property
    def is_active(self) -> bool:
        """Whether somebody has a quota of this key. If nobody has, nothing is counted."""
        return bool(self._limits)

    def follow(self, bounds: Mapping[QuotaEntity, float]) -> None:
        """What is counted stays; it is measured by the new limits."""
        self._limits = QuotaLimits(bounds)
        for counter in self._all.values():
            limit = self._limits.limit_of(counter.key)
            counter.bound, counter.level = limit.bound * self._scale, limit.level

    def get(self, user: str, client_id: str) -> C:
        key = self._limits.counter_key(user, client_id[:_LONGEST_NAME])
        found = self._all.get(key)
        if found is not None:
            return found
        limit = self._limits.limit_of(key)
        is_named = limit.level is not None and limit.level.number in _SPECIFIC_LEVELS
        if len(self._all) >= MOST_COUNTERS and key.client_id is not None and not is_named:
            key = key._replace(client_id=OTHERS)
            if (found := self._all.get(key)) is not None:
                return found
        counter = self._all[key] = self._make(key, limit)
        return counter

    def forget_idle(self, now_ms: int) -> None:
        idle = [key for key, each in self._all.items() if now_ms - each.used_ms >= FORGET_AFTER_MS]
        for key in idle:
            del self._all[key]

    def __iter__(self) -> Iterator[C]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)


def rate_counters(
    *, samples: int, window_ms: int, longest_ms: int = LONGEST_THROTTLE_MS, scale: float = 1.0
) -> QuotaCounters[RateCounter]:
    return QuotaCounters(
        lambda key, limit: RateCounter(key, limit, Windows(samples, window_ms), longest_ms, scale),
        scale=scale,
    )


def mutation_counters(*, samples: int, window_ms: int) -> QuotaCounters[MutationCounter]:
    return QuotaCounters(
        lambda key, limit: MutationCounter(key, limit, TokenBucket(samples, window_ms))
    )
