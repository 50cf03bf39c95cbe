"""Time and randomness as dependencies to pass in. Pure: protocols; `system` has the real ones."""

from typing import Protocol


class Clock(Protocol):
    """Wall time decides about records; monotonic time decides about waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, as records carry them. May jump in either direction."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary origin. Never goes back."""
        ...


class Dice(Protocol):
    """The source of randomness: jitter, ids, salts."""

    def below(self, bound: int) -> int:
        """A number in [0, bound); bound is at least 1."""
        ...

    def random_bytes(self, count: int) -> bytes: ...
