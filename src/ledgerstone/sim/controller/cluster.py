"""A cluster from a scenario: faults while clients and brokers work, then it must recover.

Part of sim. The second phase bounds how long a healed cluster takes: a controller, every broker
unfenced, every partition led and in sync, every request ended, all images equal.
"""

from ledgerstone.config.broker import BrokerConfig, load_broker_config
from ledgerstone.metadata.image import NO_LEADER
from ledgerstone.raft.settings import Settings
from ledgerstone.sim.controller.clients import AdminClient
from ledgerstone.sim.controller.facts import PartitionFact
from ledgerstone.sim.controller.faults import ClusterFaults
from ledgerstone.sim.controller.judge import ClusterJudge
from ledgerstone.sim.controller.process import SimProcess, process_of
from ledgerstone.sim.controller.replication import Member, Replication
from ledgerstone.sim.controller.scenario import Scenario
from ledgerstone.sim.controller.stage import CLUSTER_ID, SimStage
from ledgerstone.sim.controller.truth import Truth
from ledgerstone.sim.played import Outcome
from ledgerstone.sim.quorum.checkers import Checkers
from ledgerstone.sim.quorum.cluster import play
from ledgerstone.sim.quorum.fleet import choose_left_out, make_fleet
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.quorum.memory_log import Entry
from ledgerstone.sim.quorum.network import Network
from ledgerstone.sim.quorum.workload import is_leading
from ledgerstone.sim.world import Violation, World

_LOOK_MS = 500
# A session, a registration that waits for it, a lag, an answer: all of it twice.
RECOVERY_MS = 60_000
_CALM_MS = 2_500
_MAX_STEPS_A_SECOND = 6_000


def run(scenario: Scenario, *, keeps_trace: bool = False) -> Outcome:
    return play(Cluster(scenario, keeps_trace=keeps_trace))


class Cluster:
    def __init__(
        self, scenario: Scenario, *, keeps_trace: bool = False, shares_images: bool = False
    ) -> None:
        config = scenario.config
        self.scenario = scenario
        self.world = World(scenario.seed, keeps_trace=keeps_trace)
        self.network = Network(self.world, config)
        self.checkers = Checkers(self.world)
        self.truth = Truth(self.world, CLUSTER_ID)
        self.judge = ClusterJudge(self.world, config, self.checkers, self.truth)
        self.replication = Replication(self.world, config, self.truth)
        self.stage = SimStage(
            world=self.world,
            network=self.network,
            config=config,
            judge=self.judge,
            replication=self.replication,
            shares_images=shares_images,
        )
        self._entries: dict[tuple[int, int], Entry] = {}
        self._configs = [_config_of(number) for number in range(config.nodes)]
        settings = Settings(
            retention_bytes=config.snapshot_bytes,
            cleaning_interval_ms=3_000,
            fetch_max_bytes=20_000,
            fetch_snapshot_max_bytes=2_000,
            auto_join=bool(config.auto_join),
        )
        self.fleet = make_fleet(
            self.world,
            self.network,
            self.checkers,
            config,
            settings,
            cluster_id=CLUSTER_ID,
            make_state=self._process,
            share=self._share if shares_images else _own,
        )
        self.stage.fleet = self.fleet
        for machine in self.fleet:
            machine.on_loss = lambda whole, n=machine.number: self.replication.lost_power(  # type: ignore[misc]
                n, whole=whole
            )
        self.replication.reach = self._reach
        self.judge.progress_of = self._progress_of
        self.world.after_step.append(self.judge.look)
        self.faults = ClusterFaults(self.stage)
        self.clients = [AdminClient(self.stage, n, self.processes) for n in range(config.clients)]
        self.recovery_ms = -1
        self._steps_before = 0

    def _process(self, machine: Machine) -> SimProcess:
        return SimProcess(self.stage, machine, self._configs[machine.number])

    def _share(self, entry: Entry) -> Entry:
        known = self._entries.setdefault((entry.base_offset, entry.epoch), entry)
        return known if known.crc == entry.crc else entry

    def processes(self) -> list[SimProcess]:
        found = [process_of(machine) for machine in self.fleet]
        return [each for each in found if each is not None]

    def _reach(self, source: int, target: int) -> Member | None:
        """The broker process on `target`, if the one on `source` can talk with it."""
        if target >= len(self.fleet):
            return None
        machine, process = self.fleet[target], process_of(self.fleet[target])
        if process is None or machine.is_paused or process.broker is None:
            return None
        if self.network.is_cut(source, target) or self.network.is_cut(target, source):
            return None
        return process.broker

    def _progress_of(self, incarnation: bytes) -> int | None:
        for process in self.processes():
            if process.broker is not None and process.broker.incarnation_id == incarnation:
                return process.end_offset - 1
        return None

    # -- the safety phase ---------------------------------------------------------------------

    def begin(self) -> None:
        starts = self.world.dice("starts")
        for machine in self.fleet:
            self.world.after(starts.below(1_000), f"n{machine.number} on", machine.start)
        for fault in self.scenario.faults:
            self.world.at(fault.at_ms, f"fault {fault}", lambda f=fault: self.faults.strike(f))  # type: ignore[misc]
        for client in self.clients:
            client.begin()

    @property
    def acknowledged_count(self) -> int:
        return self.judge.answers.success_count

    def run(self) -> None:
        self.begin()
        self.advance(self.scenario.config.fault_ms)
        self._recover()

    def advance(self, until_ms: int) -> None:
        while self.world.now_ms < until_ms:
            self.world.run(min(self.world.now_ms + 1_000, until_ms))
            steps = self.world.trace.count
            most = _MAX_STEPS_A_SECOND * max(1, len(self.fleet) // 7)
            if steps - self._steps_before > most:
                raise Violation("NoBusyLoop", f"{steps - self._steps_before} steps in a second")
            self._steps_before = steps

    # -- the liveness phase -------------------------------------------------------------------

    def _recover(self) -> None:
        self.world.note("heal")
        dice = self.world.dice("left out")
        left_out = choose_left_out(dice, self.fleet, self.scenario.config, self.faults.wiped)
        self.faults.heal(left_out)
        self.stage.is_healed = True
        for client in self.clients:
            client.is_over = True
        began_ms = self.world.now_ms
        awake_ms = max(began_ms, *(each.paused_until_ms for each in self.fleet))
        while True:
            self.advance(self.world.now_ms + _LOOK_MS)
            complaint = self._complaint() or self._unrest()
            if complaint is None:
                break
            if self.world.now_ms - awake_ms > RECOVERY_MS:
                raise Violation("Liveness", complaint)
        self.recovery_ms = self.world.now_ms - began_ms
        for process in self.processes():
            self.judge.shown(process.number, process.image, process.end_offset, whole=True)

    def _unrest(self) -> str | None:
        """What still changes: a session that began before the heal may yet expire."""
        epochs = [each.node.epoch for each in self.fleet if each.node is not None]
        partitions = dict(self.truth.partitions)
        self.advance(self.world.now_ms + _CALM_MS)
        if epochs != [each.node.epoch for each in self.fleet if each.node is not None]:
            return f"epochs go on rising: {epochs}"
        return "partitions go on changing" if partitions != self.truth.partitions else None

    def _complaint(self) -> str | None:
        """Why the cluster has not recovered; None: it has."""
        active = [each for each in self.processes() if each.link.is_active]
        leaders = [each for each in self.fleet if is_leading(each)]
        if len(active) != 1 or len(leaders) != 1:
            roles = "; ".join(each.host.describe() for each in self.fleet)
            return f"{len(active)} controllers, {len(leaders)} leaders: {roles}"
        epochs = {each.node.epoch for each in self.fleet if each.node is not None}
        if len(epochs) > 1:
            return f"epochs {epochs}"
        if any(client.is_waiting for client in self.clients):
            return "a client still waits"
        if any(process.is_asking or process.link.in_flight for process in self.processes()):
            return "a request is still on its way"
        behind = [
            each.number for each in self.processes() if each.end_offset + 20 < self.truth.end_offset
        ]
        if behind:
            return f"nodes {behind} are behind {self.truth.end_offset}"
        return self._brokers_complaint() or self._partitions_complaint()

    def _brokers_complaint(self) -> str | None:
        for number in self.scenario.config.broker_numbers:
            fact, machine = self.truth.brokers.get(number), self.fleet[number]
            if machine.is_left_out:
                if fact is not None and not fact.fenced:
                    return f"broker {number} is down, but not fenced"
                continue
            process = process_of(machine)
            if process is None or process.broker is None or not process.broker.is_running:
                state = None if process is None or process.broker is None else process.broker.life
                said = None if state is None else (state.state.name, state.last_failure)
                return f"broker {number} does not run: {said}"
            if fact is None or fact.incarnation != process.broker.incarnation_id:
                return f"broker {number} is not the registered one"
            if not fact.is_active:
                return f"broker {number} is not active: {fact}"
        return None

    def _partitions_complaint(self) -> str | None:
        alive = {
            number
            for number in self.scenario.config.broker_numbers
            if not self.fleet[number].is_left_out
        }
        for key, fact in self.truth.partitions.items():
            complaint = _partition_complaint(fact, alive)
            if complaint is not None:
                return f"{key[0].hex()[:8]}-{key[1]} {complaint}: {fact}"
        return None


def _partition_complaint(fact: PartitionFact, alive: set[int]) -> str | None:
    if fact.leader == NO_LEADER:
        may_lead = set(fact.isr or fact.elr) & alive
        return "has no leader" if may_lead else None
    if set(fact.isr) != set(fact.replicas) & alive:
        return "is not in sync"
    if (fact.adding or fact.removing) and set(fact.adding) <= alive:
        stay = set(fact.isr) - set(fact.removing)
        is_small = len(fact.adding) < len(fact.removing)
        if stay and not (is_small and not set(fact.replicas) - set(fact.removing) <= alive):
            return "is still reassigned"
    return None


def _own(entry: Entry) -> Entry:
    return entry


def _config_of(number: int) -> BrokerConfig:
    return load_broker_config(overrides=(f"node.id={number}",)).config
