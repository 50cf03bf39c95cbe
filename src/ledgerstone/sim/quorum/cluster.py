"""A quorum from a scenario: faults while it works, then it must recover. Part of sim."""

from typing import Protocol

from ledgerstone.raft.settings import Settings
from ledgerstone.sim.played import Outcome, Played
from ledgerstone.sim.quorum.checkers import Checkers
from ledgerstone.sim.quorum.faults import Faults
from ledgerstone.sim.quorum.fleet import choose_left_out, make_fleet
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.quorum.network import Network
from ledgerstone.sim.quorum.scenario import Scenario
from ledgerstone.sim.quorum.workload import Workload, is_leading
from ledgerstone.sim.world import Violation, World

_CLUSTER_ID = "sim-quorum"
_LOOK_MS = 500
_LOOKS = 6
# A healed quorum has a leader, everything committed and every replica equal within this time.
RECOVERY_MS = 40_000
_SETTLE_MS = 4_000
# And keeps its epoch from then on.
_CALM_MS = 2_500
# More steps than this in a virtual second mean that a node asks without waiting.
_MAX_STEPS_A_SECOND = 6_000


class Playable(Protocol):
    """A simulated cluster, of the quorum or of what stands on it."""

    world: World
    checkers: Checkers
    recovery_ms: int

    @property
    def scenario(self) -> Played: ...

    @property
    def acknowledged_count(self) -> int: ...

    def run(self) -> None: ...


def play(cluster: Playable) -> Outcome:
    violation = None
    try:
        cluster.run()
    except Violation as found:
        violation = found
    world = cluster.world
    return Outcome(
        scenario=cluster.scenario,
        violation=violation,
        digest=world.trace.digest(),
        steps=world.trace.count,
        virtual_ms=world.now_ms,
        elections=cluster.checkers.leaders.elections,
        committed=cluster.checkers.logs.committed_end,
        acknowledged=cluster.acknowledged_count,
        recovery_ms=cluster.recovery_ms,
        marks=world.marks,
        trace=world.trace.lines,
    )


def run(scenario: Scenario, *, keeps_trace: bool = False) -> Outcome:
    return play(Cluster(scenario, keeps_trace=keeps_trace))


class Cluster:
    def __init__(self, scenario: Scenario, *, keeps_trace: bool = False) -> None:
        config = scenario.config
        self.scenario = scenario
        self.world = World(scenario.seed, keeps_trace=keeps_trace)
        self.network = Network(self.world, config)
        self.checkers = Checkers(self.world)
        settings = Settings(
            retention_bytes=config.snapshot_bytes,
            cleaning_interval_ms=3_000,
            fetch_max_bytes=4_000,
            fetch_snapshot_max_bytes=150,
            auto_join=bool(config.auto_join),
        )
        self.fleet = make_fleet(
            self.world, self.network, self.checkers, config, settings, cluster_id=_CLUSTER_ID
        )
        self.faults = Faults(self.world, self.network, self.fleet)
        self.workload = Workload(self.world, config, self.fleet, self.faults.wiped)
        self.recovery_ms = -1
        self._steps_before = 0

    # -- the safety phase ---------------------------------------------------------------------

    @property
    def acknowledged_count(self) -> int:
        return self.checkers.logs.acknowledged_count

    def run(self) -> None:
        config = self.scenario.config
        starts = self.world.dice("starts")
        for machine in self.fleet:
            self.world.after(starts.below(1_500), f"n{machine.number} on", machine.start)
        for fault in self.scenario.faults:
            self.world.at(fault.at_ms, f"fault {fault}", lambda f=fault: self.faults.strike(f))  # type: ignore[misc]
        self.workload.begin()
        self._run(config.fault_ms)
        self.recover()

    def _run(self, until_ms: int) -> None:
        while self.world.now_ms < until_ms:
            self.world.run(min(self.world.now_ms + 1_000, until_ms))
            steps = self.world.trace.count
            if steps - self._steps_before > _MAX_STEPS_A_SECOND:
                raise Violation("NoBusyLoop", f"{steps - self._steps_before} steps in a second")
            self._steps_before = steps

    # -- the liveness phase -------------------------------------------------------------------

    def recover(self) -> None:
        self.world.note("heal")
        self.faults.heal(self._left_out())
        began_ms = self.world.now_ms
        # A leader that lost its majority just before must be given the time to notice.
        # So must one that is asleep: what waits for it waits until it wakes.
        awake_ms = max(each.paused_until_ms for each in self.fleet)
        self._run(max(began_ms, awake_ms) + _SETTLE_MS)
        acknowledged = self.checkers.logs.acknowledged_count
        while not self._is_recovered() or acknowledged == self.checkers.logs.acknowledged_count:
            if self.world.now_ms - began_ms > RECOVERY_MS:
                raise Violation("Liveness", self._complaint())
            for number in self.faults.wiped:
                self.workload.replace_lost(number)
            self._run(self.world.now_ms + _LOOK_MS)
        self.recovery_ms = self.world.now_ms - began_ms
        self.workload.is_over = True
        self._check_calm()

    def _check_calm(self) -> None:
        """No proposals: logs stand still, replicas become equal, and the epoch stays."""
        self._run(self.world.now_ms + _CALM_MS)
        epochs = [each.node.epoch for each in self.fleet if each.node is not None]
        acknowledged = self.checkers.logs.acknowledged_count
        if not self.workload.propose_once():
            raise Violation("Liveness", f"calm, and no leader: {self._complaint()}")
        self._run(self.world.now_ms + _CALM_MS)
        if self.checkers.logs.acknowledged_count == acknowledged:
            raise Violation("Liveness", f"calm, and nothing is committed: {self._complaint()}")
        # Replicas that join by themselves may have written a voter set just now.
        for _ in range(_LOOKS):
            if self._is_recovered():
                break
            self._run(self.world.now_ms + _LOOK_MS)
        else:
            raise Violation("Liveness", f"calm, and replicas differ: {self._complaint()}")
        if epochs != [each.node.epoch for each in self.fleet if each.node is not None]:
            raise Violation("Liveness", f"epochs go on rising: {epochs}, {self._complaint()}")

    def _is_recovered(self) -> bool:
        leaders = [each for each in self.fleet if is_leading(each)]
        if len(leaders) != 1:
            return False
        leader = leaders[0].node
        assert leader is not None
        for machine in self.fleet:
            if machine.is_left_out:
                continue
            if machine.node is None or machine.node.epoch != leader.epoch:
                return False
            if machine.node.role.leader_id != leader.role.leader_id:
                return False
            # While proposals go on, replicas may be a few records behind.
            behind = leader.high_watermark - machine.node.high_watermark
            if behind > (0 if self.workload.is_over else 20):
                return False
        return True

    def _left_out(self) -> list[Machine]:
        dice = self.world.dice("left out")
        return choose_left_out(dice, self.fleet, self.scenario.config, self.faults.wiped)

    def _complaint(self) -> str:
        return "; ".join(each.host.describe() for each in self.fleet)
