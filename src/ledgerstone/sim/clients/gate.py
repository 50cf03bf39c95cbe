"""A client's process as far as time goes: it may stand still, and it may end.

While it stands still, whatever is due for it waits, in order; then all of it happens at once.
That is how a zombie is made: it believes that no time has passed.
"""

from collections.abc import Callable

from ledgerstone.sim.world import Event, World


class ClientProcess:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_dead = False
        self._waiting: list[Callable[[], None]] = []
        self._wakes: Event | None = None

    @property
    def is_shut(self) -> bool:
        return self._wakes is not None

    def run(self, action: Callable[[], None]) -> None:
        """Now, or when the process goes on; never once it is dead."""
        if self.is_shut:
            self._waiting.append(action)
        elif not self.is_dead:
            action()

    def after(self, delay_ms: int, label: str, action: Callable[[], None]) -> Event:
        return self.world.after(delay_ms, label, lambda: self.run(action))

    def stand_still(self, for_ms: int) -> None:
        if not self.is_dead and not self.is_shut:
            self._wakes = self.world.after(for_ms, f"{self.name} wakes up", self.wake)

    def wake(self) -> None:
        if self._wakes is not None:
            self._wakes.cancel()
            self._wakes = None
        # What one of these starts takes time, so that none of them can shut the gate again.
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            self.run(action)

    def die(self) -> None:
        self.is_dead = True
        self._waiting.clear()
