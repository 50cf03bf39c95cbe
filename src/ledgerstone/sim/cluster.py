"""A cluster made from a scenario, run to its end: faults first, then heal, then everything ends.

Each node is a broker of its own today, with its own clients. What they share is the network and the
queue of events; a broker that dials others is one more host of that network.
"""

from dataclasses import dataclass
from functools import partial

from ledgerstone.records.batch import Codec
from ledgerstone.sim import faults
from ledgerstone.sim.clients.admin import Admin, Eraser
from ledgerstone.sim.clients.group_book import GroupBook
from ledgerstone.sim.clients.member import Member
from ledgerstone.sim.clients.producer import Keys, Producer
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.invariants import Checker, all_checkers
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.network import Network, Weather
from ledgerstone.sim.node import Node
from ledgerstone.sim.scenario import Config, Scenario
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition

# After heal: how long clients may take to come to their end, and how often a node is looked at.
LIVENESS_MS = 240_000
LOOK_MS = 10_000
PLAIN = [TopicPartition("plain", 0), TopicPartition("plain", 1)]
COMPACT = [TopicPartition("compact", 0)]


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
        self.checkers: list[Checker] = all_checkers(self.world)
        self.faults_injected = 0
        self.is_healed = False
        self.nodes: list[Node] = []
        self.models: list[NodeModel] = []
        self.producers: list[Producer] = []
        self.members: list[Member] = []
        self.admins: list[Admin] = []
        self.erasers: list[Eraser] = []
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
            settings=_settings(config),
            skew_ppm=config.skew_ppm * (1 if number % 2 == 0 else -1),
            latency=(config.disk_min_ms, config.disk_max_ms),
        )
        model = NodeModel(node, world, bool(config.durable), config.delete_retention_ms)
        node.on_up.append(lambda up: self._look(model))
        self.nodes.append(node)
        self.models.append(model)
        admin = Admin(
            world,
            self._wire(f"{node.name}-admin", node),
            model,
            extra_topics=config.extra_topics,
            every_ms=3_000,
        )
        self.admins.append(admin)
        node.start()
        plain = {"retention.ms": "-1", "segment.bytes": str(config.segment_bytes)}
        compact = {
            "cleanup.policy": "compact",
            "segment.bytes": str(config.segment_bytes),
            "delete.retention.ms": str(config.delete_retention_ms),
            "min.cleanable.dirty.ratio": str(config.dirty_percent / 100),
            "file.delete.delay.ms": "500",
        }
        admin.create("compact", 1, compact, lambda: self._add_writers(model))
        admin.create("plain", len(PLAIN), plain, lambda: self._add_members(model))

    def _wire(self, name: str, node: Node) -> Wire:
        return Wire(self.world, self.network, name, node)

    def _add_writers(self, model: NodeModel) -> None:
        """To both topics; the keys to be erased are a few of the compacted one's."""
        config, node = self.config, model.node
        doomed = [b"erase-me-%d" % n for n in range(config.erasures)]
        names = [b"key-%d" % n for n in range(config.keys)]
        writers = []
        for number in range(config.producers):
            is_compact = number % 2 == 0
            producer = Producer(
                self.world,
                self._wire(f"{node.name}-p{number}", node),
                model,
                partitions=COMPACT if is_compact else PLAIN,
                keys=Keys(
                    names=[*names, *doomed] if is_compact else names,
                    tombstone_percent=config.tombstone_percent if is_compact else 0,
                ),
                batches=config.batches,
                pace_ms=config.pace_ms,
                max_in_flight=config.in_flight,
                codecs=(Codec.NONE, Codec.GZIP) if config.compresses else (Codec.NONE,),
            )
            self.producers.append(producer)
            if is_compact:
                writers.append(producer)
        eraser = Eraser(
            self.world,
            f"{node.name}-eraser",
            model,
            topic="compact",
            producers=writers,
            keys=list(doomed),
            every_ms=2_500,
        )
        self.erasers.append(eraser)

    def _add_members(self, model: NodeModel) -> None:
        node, book = model.node, GroupBook("g")
        for number in range(self.config.members):
            name = f"{node.name}-m{number}"
            member = Member(
                self.world,
                self._wire(name, node),
                self._wire(f"{name}-reads", node),
                model,
                book=book,
                partitions=PLAIN,
                joins_at_ms=number * 700,
            )
            self.members.append(member)

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

    def _heal(self) -> None:
        self.is_healed = True
        self.world.note("heal")
        self.network.heal()
        faults.heal(self.nodes)
        for producer in self.producers:
            producer.stop()
        for admin in self.admins:
            admin.stop()
        for eraser in self.erasers:
            eraser.stop()

    def _unfinished(self) -> list[str]:
        left = [f"{node.name} is down" for node in self.nodes if not node.is_up]
        left += [
            f"{each.name} has unanswered batches" for each in self.producers if not each.is_done
        ]
        left += [f"{each.wire.name} is not answered" for each in self.admins if not each.is_done]
        for eraser in self.erasers:
            left += [f"erasure {each} has no receipt" for each in eraser.open]
            if not eraser.is_done:
                left.append(f"{eraser.name} waits")
        if not left:
            left += self._unread()
        return left

    def _unread(self) -> list[str]:
        """Each group reads to the end of what it subscribed."""
        left = []
        for node in self.nodes:
            members = [each for each in self.members if each.model.node is node]
            if not members:
                continue
            assert node.broker is not None
            owners: dict[TopicPartition, int] = {}
            for member in members:
                if member.generation_id == member.book.last_generation_id:
                    for tp in member.owned:
                        owners[tp] = member.positions.get(tp, 0)
            for tp in PLAIN:
                partition = node.broker.partitions.find(tp)
                if partition is None or owners.get(tp, -1) < partition.log.log_end_offset:
                    left.append(f"{node.name} {tp} is read up to {owners.get(tp)}")
        return left

    # -- checking -----------------------------------------------------------------------------

    def _step(self) -> None:
        for model in self.models:
            if model.node.broker is not None:
                for checker in self.checkers:
                    checker.step(model)

    def _look_around(self) -> None:
        for model in self.models:
            node = model.node
            if node.is_up and self.world.now_ms >= node.paused_until_ms:
                self._look(model)
        self.world.after(LOOK_MS, "look", self._look_around)

    def _look(self, model: NodeModel) -> None:
        for checker in self.checkers:
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
