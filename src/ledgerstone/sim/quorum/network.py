"""Requests and answers between nodes: late, lost, twice, or cut off in one direction. Part of sim.

Messages of different connections overtake each other. A request of a process that died may still
arrive; an answer to one never does.
"""

from collections.abc import Callable

from ledgerstone.sim.quorum.scenario import Config
from ledgerstone.sim.world import World


class Network:
    def __init__(self, world: World, config: Config) -> None:
        self._world = world
        self._config = config
        self._dice = world.dice("network")
        # How many cuts lie on a directed path.
        self._cuts: dict[tuple[int, int], int] = {}
        self.is_healed = False

    def carry(self, source: int, target: int, label: str, deliver: Callable[[], None]) -> None:
        """A request; it may come twice."""
        self._carry(source, target, label, deliver)
        if not self.is_healed and self._dice.chance(self._config.twin_percent):
            self._world.mark("a request came twice")
            self._carry(source, target, f"{label} twin", deliver)

    def carry_answer(
        self, source: int, target: int, label: str, deliver: Callable[[], None]
    ) -> None:
        self._carry(source, target, label, deliver)

    def _carry(self, source: int, target: int, label: str, deliver: Callable[[], None]) -> None:
        config = self._config
        jitter_ms = self._dice.below(config.jitter_ms + 1)
        is_lost = self._dice.chance(config.loss_percent)
        if self.is_healed:
            jitter_ms = min(jitter_ms, 10)
        elif is_lost:
            self._world.note(f"lost {label}")
            return

        def arrive() -> None:
            if self._cuts.get((source, target), 0):
                self._world.note(f"cut off {label}")
                return
            deliver()

        self._world.after(config.delay_ms + jitter_ms, label, arrive)

    # -- cuts ---------------------------------------------------------------------------------

    def cut(self, paths: list[tuple[int, int]], ms: int) -> None:
        for path in paths:
            self._cuts[path] = self._cuts.get(path, 0) + 1
        self._world.after(ms, "cut ends", lambda: self._mend(paths))

    def _mend(self, paths: list[tuple[int, int]]) -> None:
        for path in paths:
            if self._cuts.get(path, 0):
                self._cuts[path] -= 1

    def heal(self) -> None:
        self._cuts.clear()
        self.is_healed = True

    def is_cut(self, source: int, target: int) -> bool:
        return bool(self._cuts.get((source, target), 0))
