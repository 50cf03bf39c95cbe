"""Time that moves only when told to. Pure. Contract: `ledgerstone.clock.Clock`."""

# 2023-11-14T22:13:20Z: late enough that subtracting any retention time stays positive.
DEFAULT_START_MS = 1_700_000_000_000

_MS_PER_SECOND = 1_000
_MS_PER_MINUTE = 60 * _MS_PER_SECOND
_MS_PER_HOUR = 60 * _MS_PER_MINUTE
_MS_PER_DAY = 24 * _MS_PER_HOUR


class VirtualClock:
    """Wall time and monotonic time advance together; only the wall clock can be set aside."""

    __slots__ = ("_monotonic_ms", "_now_ms")

    def __init__(self, *, start_ms: int = DEFAULT_START_MS) -> None:
        self._now_ms = start_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(
        self, *, ms: int = 0, seconds: int = 0, minutes: int = 0, hours: int = 0, days: int = 0
    ) -> None:
        step_ms = (
            ms
            + seconds * _MS_PER_SECOND
            + minutes * _MS_PER_MINUTE
            + hours * _MS_PER_HOUR
            + days * _MS_PER_DAY
        )
        if step_ms < 0:
            raise ValueError(f"time cannot advance by {step_ms} ms; use set_wall_ms for a jump")
        self._now_ms += step_ms
        self._monotonic_ms += step_ms

    def set_wall_ms(self, now_ms: int) -> None:
        """An operator or NTP sets the wall clock, in either direction; monotonic time stays."""
        self._now_ms = now_ms
