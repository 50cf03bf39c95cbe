"""A machine's own clock: it runs a little fast or slow, and its wall time can be set.

Contract: `ledgerstone.clock.Clock`. Monotonic time follows the world's with an error in parts per
million. Wall time is monotonic time plus an offset that faults change.
"""

from ledgerstone.sim.clock import DEFAULT_START_MS
from ledgerstone.sim.world import World

_MILLION = 1_000_000


class NodeClock:
    def __init__(self, world: World, *, skew_ppm: int = 0) -> None:
        self._world = world
        self._rate = _MILLION + skew_ppm
        # (since when in world time, what is added to monotonic time)
        self._offsets = [(0, DEFAULT_START_MS)]

    def monotonic_ms(self) -> int:
        return self._world.now_ms * self._rate // _MILLION

    def now_ms(self) -> int:
        return self.monotonic_ms() + self._offsets[-1][1]

    def set_ahead_ms(self, ahead_ms: int) -> None:
        """The wall clock is set to this much more than the true time."""
        self._offsets.append((self._world.now_ms, DEFAULT_START_MS + ahead_ms))

    def catch_up(self) -> None:
        """Set to the latest time it has ever been set to: a horizon that was stamped while the
        clock was ahead would otherwise lie days away."""
        latest = max(offset for _, offset in self._offsets)
        self._offsets.append((self._world.now_ms, latest))

    def world_ms_until(self, monotonic_ms: int) -> int:
        """How long the world must run on until this clock shows at least that."""
        missing = monotonic_ms - self.monotonic_ms()
        if missing <= 0:
            return 0
        # Rounded up: a timer never fires early by its own clock.
        return -(-missing * _MILLION // self._rate)

    def highest_wall_ms(self, since_world_ms: int) -> int:
        """The latest wall time this clock has shown since then."""
        highest = self.now_ms()
        ends = [since for since, _ in self._offsets[1:]]
        for (_, offset), end in zip(self._offsets, ends, strict=False):
            if end >= since_world_ms:
                highest = max(highest, end * self._rate // _MILLION + offset)
        return highest

    def lowest_wall_ms(self, since_world_ms: int) -> int:
        """The earliest wall time this clock has shown since then."""
        lowest = self.now_ms()
        ends = [*(since for since, _ in self._offsets[1:]), self._world.now_ms]
        for (start, offset), end in zip(self._offsets, ends, strict=True):
            if end >= since_world_ms:
                begun = max(start, since_world_ms)
                lowest = min(lowest, begun * self._rate // _MILLION + offset)
        return lowest
