"""A clock that can be moved ahead of the real one. Pure: the real one is handed in.

For tests of people's own programs: a day passes in a millisecond. Only wall time moves, which
decides about records; waiting goes by monotonic time, so connections and sessions do not notice.
"""

from ledgerstone.clock import Clock


class MovableClock:
    __slots__ = ("_base", "ahead_ms")

    def __init__(self, base: Clock) -> None:
        self._base = base
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return self._base.now_ms() + self.ahead_ms

    def monotonic_ms(self) -> int:
        return self._base.monotonic_ms()

    def advance(self, ms: int) -> None:
        if ms < 0:
            raise ValueError(f"{ms} ms: time does not go back")
        self.ahead_ms += ms
