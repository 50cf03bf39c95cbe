"""What each fault of a scenario does to the quorum. Part of sim."""

from ledgerstone.raft.events import Resign, Stop
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.quorum.network import Network
from ledgerstone.sim.scenario import Fault
from ledgerstone.sim.world import World


class Faults:
    def __init__(self, world: World, network: Network, fleet: list[Machine]) -> None:
        self._world = world
        self._network = network
        self._fleet = fleet
        self._dice = world.dice("fault targets")
        self._ids = world.dice("directory ids")
        self.wiped: list[int] = []
        self.is_over = False

    def strike(self, fault: Fault) -> None:
        if self.is_over:
            return
        match fault.kind:
            case "split":
                self._split(fault.number("nodes"), fault.number("ms"))
            case "blackout":
                for machine in self._fleet:
                    machine.lose_power(fault.number("mode"))
                    self._restart(machine, fault.number("down") + self._dice.below(500))
            case _:
                self._strike_node(fault, self._target(fault.number("node")))

    def _strike_node(self, fault: Fault, machine: Machine) -> None:
        down = fault.number("down")
        match fault.kind:
            case "crash":
                machine.die()
                self._restart(machine, down)
            case "power":
                machine.lose_power(fault.number("mode"))
                self._restart(machine, down)
            case "torn":
                # Dies inside one of the next disk operations of its vote.
                fs = machine.fs
                fs.crash_at(fs.operation_count + fault.number("ops"), torn=True)
                self._restart(machine, down + 2_000)
            case "stop":
                machine.tell(Stop())
                self._world.after(800, f"n{machine.number} stopped", machine.die)
                self._restart(machine, down + 900)
            case "wipe":
                self._wipe(machine, down)
            case "pause":
                machine.paused_until_ms = self._world.now_ms + fault.number("ms")
            case "cut":
                self._cut(machine, fault.number("way"), fault.number("ms"))
            case "link":
                self._network.cut([(machine.number, fault.number("to"))], fault.number("ms"))
            case "slow":
                self._slow(machine, fault.number("ms"))
            case "eio":
                machine.fails_next_sync = True
            case "resign":
                if machine.leader is not None:
                    machine.tell(Resign(machine.leader.epoch))

    def _target(self, number: int) -> Machine:
        """Node -1 is a leader, if there is one."""
        if number >= 0:
            return self._fleet[number]
        leaders = [each for each in self._fleet if each.leader is not None]
        return self._dice.pick(leaders or self._fleet)

    def _restart(self, machine: Machine, after_ms: int) -> None:
        self._world.after(after_ms, f"n{machine.number} back", machine.start)

    def _wipe(self, machine: Machine, down: int) -> None:
        """At most one disk of a run: more could hold all copies of something committed."""
        if self.wiped or not machine.identity.is_controller:
            return
        self.wiped.append(machine.number)
        self._world.mark("a disk was lost")
        machine.wipe(self._ids.random_bytes(16))
        self._restart(machine, down)

    def _cut(self, machine: Machine, way: int, ms: int) -> None:
        paths = []
        for other in self._fleet:
            if other is not machine:
                paths += [(other.number, machine.number)] if way in (0, 2) else []
                paths += [(machine.number, other.number)] if way in (1, 2) else []
        self._network.cut(paths, ms)

    def _split(self, members: int, ms: int) -> None:
        paths = [
            (a.number, b.number)
            for a in self._fleet
            for b in self._fleet
            if (members >> a.number & 1) != (members >> b.number & 1)
        ]
        self._network.cut(paths, ms)

    def _slow(self, machine: Machine, ms: int) -> None:
        machine.slow_ms = 400

        def end() -> None:
            machine.slow_ms = 0

        self._world.after(ms, f"n{machine.number} fast again", end)

    # -- the end of faults --------------------------------------------------------------------

    def heal(self, left_out: list[Machine]) -> None:
        """Everything works again, but for a minority that stays down."""
        self.is_over = True
        self._network.heal()
        for machine in self._fleet:
            machine.slow_ms = 0
            machine.fails_next_sync = False
            machine.fs.clear_faults()
            machine.paused_until_ms = min(machine.paused_until_ms, self._world.now_ms)
            if machine in left_out:
                machine.die()
                machine.is_left_out = True
            else:
                machine.start()
