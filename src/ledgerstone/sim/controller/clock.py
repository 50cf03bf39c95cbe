"""The clocks of one simulated machine. Contract: `ledgerstone.clock.Clock`."""

from ledgerstone.sim.quorum.machine import Machine


class MachineClock:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def now_ms(self) -> int:
        return self._machine.now().wall_ms

    def monotonic_ms(self) -> int:
        return self._machine.now().monotonic_ms
