"""What each fault of a scenario does to the quorum. Part of sim."""

from ledgerstone.raft.events import Resign, Stop
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.quorum.network import Network
from ledgerstone.sim.script_text import Fault
from ledgerstone.sim.world import World


class Faults:
    def __init__(self, world: World, network: Network, fleet: list[Machine]) -> None:
        self.world = world
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
                    machine.come_back(fault.number("down") + self._dice.below(500))
            case _:
                self.strike_node(fault, self._target(fault.number("node")))

    def strike_node(self, fault: Fault, machine: Machine) -> None:
        down = fault.number("down")
        match fault.kind:
            case "crash":
                machine.die()
                machine.come_back(down)
            case "power":
                machine.lose_power(fault.number("mode"))
                machine.come_back(down)
            case "torn":
                # Dies inside one of the next disk operations of its vote. Power may go later.
                fs = machine.fs
                machine.dies_with_power = bool(fault.number("power"))
                fs.crash_at(fs.operation_count + fault.number("ops"), torn=True)
                machine.come_back(down + 2_000)
                if not machine.dies_with_power:
                    at_ms = down + 2_000 + fault.number("later")
                    label = f"n{machine.number} loses power"
                    self.world.after(at_ms, label, lambda: self._lose_power(machine))
            case "stop":
                machine.tell(Stop())
                self.world.after(800, f"n{machine.number} stopped", machine.die)
                machine.come_back(down + 900)
            case "wipe":
                self._wipe(machine, down)
            case "pause":
                machine.paused_until_ms = self.world.now_ms + fault.number("ms")
            case "cut":
                self._cut(machine, fault.number("way"), fault.number("ms"))
            case "link":
                self._network.cut([(machine.number, fault.number("to"))], fault.number("ms"))
            case "slow":
                self._slow(machine, fault.number("ms"))
            case "eio":
                machine.hands.fails_next_sync = True
            case "resign":
                if machine.host.leader is not None:
                    machine.tell(Resign(machine.host.leader.epoch))

    def _target(self, number: int) -> Machine:
        """Node -1 is a leader, if there is one. A shrunk scenario may have fewer nodes."""
        if number >= 0:
            return self._fleet[number % len(self._fleet)]
        leaders = [each for each in self._fleet if each.host.leader is not None]
        return self._dice.pick(leaders or self._fleet)

    def _lose_power(self, machine: Machine) -> None:
        if not self.is_over:
            machine.lose_power(0)
            machine.come_back(100)

    def _wipe(self, machine: Machine, down: int) -> None:
        """At most one disk of a run: more could hold all copies of something committed."""
        if self.wiped or not machine.host.identity.is_controller:
            return
        own_id = machine.number
        sets = [each.host.known_voters() for each in self._fleet]
        if any(own_id in voters.ids and len(voters) < 3 for voters in sets):
            return
        self.wiped.append(machine.number)
        self.world.mark("a disk was lost")
        machine.wipe(self._ids.random_bytes(16))
        machine.come_back(down)

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
        machine.hands.slow_ms = 400

        def end() -> None:
            machine.hands.slow_ms = 0

        self.world.after(ms, f"n{machine.number} fast again", end)

    # -- the end of faults --------------------------------------------------------------------

    def heal(self, left_out: list[Machine]) -> None:
        """Everything works again, but for a minority that stays down."""
        self.is_over = True
        self._network.heal()
        for machine in self._fleet:
            machine.hands.slow_ms = 0
            machine.hands.fails_next_sync = False
            machine.fs.clear_faults()
            if machine in left_out:
                machine.die()
                machine.is_left_out = True
            else:
                machine.start()
