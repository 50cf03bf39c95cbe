"""A cluster made from a scenario, run to its end: faults first, then heal, then everything ends.

Each node is a broker of its own today, with its own clients. What they share is the network and the
queue of events; a broker that dials others is one more host of that network.
"""

from collections.abc import Callable
from functools import partial

from ledgerstone.dataclasses import dataclass
from ledgerstone.sim import faults
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.network import Network, Weather
from ledgerstone.sim.node import Node
from ledgerstone.sim.scenario import Config, Scenario
from ledgerstone.sim.workloads.mixed import MixedWorkload
from ledgerstone.sim.workloads.transactions import TransactionsWorkload
from ledgerstone.sim.workloads.workload import ClientWorkload
from ledgerstone.sim.world import Violation, World

# After heal: how long clients may take to come to their end, and how often a node is looked at.
LIVENESS_MS = 240_000
LOOK_MS = 10_000
_WORKLOADS: dict[str, Callable[["Cluster"], ClientWorkload]] = {
    "mixed": MixedWorkload,
    "transactions": TransactionsWorkload,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    scenario: Scenario
    violation: Violation | None
    digest: str
    requests: int
    faults: int
    virtual_ms: int
    marks: dict[str, int]
    trace: list[str] | None = None


def run(scenario: Scenario, *, keeps_trace: bool = False) -> RunOutcome:
    """Plays a scenario. A violation ends it where it was found."""
    cluster = Cluster(scenario, keeps_trace=keeps_trace)
    violation = None
    try:
        cluster.play()
    except Violation as found:
        violation = found
    finally:
        for node in cluster.nodes:
            if node.performer is not None:
                node.performer.die()
    world = cluster.world
    return RunOutcome(
        scenario=scenario,
        violation=violation,
        digest=world.trace.digest(),
        requests=world.requests,
        faults=cluster.faults_injected,
        virtual_ms=world.now_ms,
        marks=world.marks,
        trace=world.trace.lines,
    )


class Cluster:
    def __init__(self, scenario: Scenario, *, keeps_trace: bool = False) -> None:
        self.scenario = scenario
        self.config = config = scenario.config
        self.world = World(scenario.seed, keeps_trace=keeps_trace)
        weather = Weather(
            delay_mean_ms=config.delay_ms,
            loss_percent=config.loss_percent,
            twin_percent=config.twin_percent,
            fragments=config.fragments,
        )
        self.network = Network(self.world, weather)
        self.workload: ClientWorkload = _WORKLOADS[scenario.profile](self)
        self.faults_injected = 0
        self.is_healed = False
        self.nodes: list[Node] = []
        self.models: list[NodeModel] = []
        for number in range(config.nodes):
            self._add_node(number)
        for fault in scenario.faults:
            action = partial(faults.inject, self, fault)
            self.world.at(fault.at_ms, f"fault {fault.kind}", action)
        self.world.after_step.append(self._step)
        self.world.after(LOOK_MS, "look", self._look_around)

    # -- making -------------------------------------------------------------------------------

    def _add_node(self, number: int) -> None:
        config, world = self.config, self.world
        node = Node(
            world,
            self.network,
            name=f"n{number}",
            node_id=number + 1,
            settings=_settings(config) | self.workload.settings(),
            skew_ppm=config.skew_ppm * (1 if number % 2 == 0 else -1),
            latency=(config.disk_min_ms, config.disk_max_ms),
        )
        model = NodeModel(node, world, bool(config.durable), config.delete_retention_ms)
        node.on_up.append(lambda up: self._look(model))
        self.nodes.append(node)
        self.models.append(model)
        self.workload.add_clients(model)

    # -- running ------------------------------------------------------------------------------

    def play(self) -> None:
        world = self.world
        world.run(self.config.fault_ms)
        self._heal()
        until_ms = world.now_ms + LIVENESS_MS
        while left := self._unfinished():
            if world.now_ms >= until_ms:
                raise Violation("Liveness", "; ".join(left))
            world.run(world.now_ms + 500)
        # Whatever is still under way on the disks comes to its end too.
        world.run(world.now_ms + 5_000)
        for model in self.models:
            if not model.node.is_up:
                raise Violation("Liveness", f"{model.node.name} is down")
            self._look(model)
            self.workload.end(model)

    def _heal(self) -> None:
        self.is_healed = True
        self.world.note("heal")
        self.network.heal()
        faults.heal(self.nodes)
        self.workload.heal()

    def _unfinished(self) -> list[str]:
        left = [f"{node.name} is down" for node in self.nodes if not node.is_up]
        return left or self.workload.unfinished()

    # -- checking -----------------------------------------------------------------------------

    def _step(self) -> None:
        for model in self.models:
            if model.node.broker is not None:
                for checker in self.workload.checkers:
                    checker.step(model)

    def _look_around(self) -> None:
        for model in self.models:
            node = model.node
            if node.is_up and self.world.now_ms >= node.paused_until_ms:
                self._look(model)
        self.world.after(LOOK_MS, "look", self._look_around)

    def _look(self, model: NodeModel) -> None:
        for checker in self.workload.checkers:
            checker.look(model)


def _settings(config: Config) -> dict[str, str]:
    settings = {
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.backoff.ms": "500",
        "log.initial.task.delay.ms": "500",
        "log.flush.offset.checkpoint.interval.ms": "4000",
        "log.segment.delete.delay.ms": "500",
        "connections.max.idle.ms": "30000",
        # Clocks jump by ten days: nothing may expire by that, nor lie too far ahead.
        "log.message.timestamp.after.max.ms": "9223372036854775807",
        "producer.id.expiration.ms": "2147483647",
        "offsets.retention.minutes": "2147483647",
    }
    if config.durable:
        settings["log.flush.interval.messages"] = "1"
    elif config.flush_ms:
        settings["log.flush.interval.ms"] = str(config.flush_ms)
    return settings
