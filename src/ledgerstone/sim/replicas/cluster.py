"""A cluster of whole brokers from a scenario: faults while clients work, then it must recover."""

from typing import Final

from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.metadata.image import PartitionImage
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.sim.history.operations import ClientHistory, TopicFacts
from ledgerstone.sim.network import Network, Weather
from ledgerstone.sim.played import Outcome
from ledgerstone.sim.replicas.checks import ReplicaChecks
from ledgerstone.sim.replicas.endings import check_history, check_replicas, hosted_on, read_logs
from ledgerstone.sim.replicas.faults import ReplicaFaults, has_failed
from ledgerstone.sim.replicas.node import CONTROLLER_PORT, ClusterNode
from ledgerstone.sim.replicas.receipts import ClusterReceipts
from ledgerstone.sim.replicas.scenario import Config, Scenario
from ledgerstone.sim.replicas.secrets import check_secrets
from ledgerstone.sim.replicas.workload import FLOW, LEDGER, TOPIC_SETTINGS, ClusterWorkload
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

_CLUSTER_ID: Final = uuid_to_text(b"ledgerstone sim.")
_LOOK_MS: Final = 500
# A healed cluster has every replica in sync and every client at its end within this time.
RECOVERY_MS: Final = 60_000
_CLIENTS_MS: Final = 120_000
_CALM_MS: Final = 3_000
_TOLD_MS: Final = 50
# After a connection that only one side knows to be over: replica.socket.timeout.ms, and a fetch.
_SOCKET_MS: Final = 8_000
_SILENT_MS: Final = _SOCKET_MS + 3_000
# More steps than this in a virtual second mean that a node asks without waiting.
_MAX_STEPS_A_SECOND: Final = 20_000


def run(scenario: Scenario, *, keeps_trace: bool = False) -> Outcome:
    cluster = Cluster(scenario, keeps_trace=keeps_trace)
    violation = None
    try:
        cluster.run()
    except Violation as found:
        violation = found
    finally:
        cluster.close()
    world = cluster.world
    return Outcome(
        scenario=scenario,
        violation=violation,
        digest=world.trace.digest(),
        steps=world.trace.count,
        virtual_ms=world.now_ms,
        elections=cluster.checks.elections,
        committed=cluster.checks.committed,
        acknowledged=cluster.workload.acknowledged,
        recovery_ms=cluster.recovery_ms,
        marks=world.marks,
        trace=world.trace.lines,
    )


class Cluster:
    def __init__(self, scenario: Scenario, *, keeps_trace: bool = False) -> None:
        self.scenario = scenario
        config = scenario.config
        self.world = World(scenario.seed, keeps_trace=keeps_trace)
        weather = Weather(
            delay_mean_ms=config.delay_ms,
            loss_percent=config.loss_percent,
            fragments=config.fragments,
        )
        self.network = Network(self.world, weather)
        self.history = ClientHistory()
        self._by_name: dict[str, ClusterNode] = {}
        self.nodes = [self._node(number) for number in range(config.brokers)]
        self.receipts = ClusterReceipts(self.world, self.nodes)
        self.checks = ReplicaChecks(
            self.world,
            self.nodes,
            frozenset(name for name in TOPIC_SETTINGS if is_compacted(name)),
            frozenset({FLOW} if config.unclean else ()),
            self.receipts.look,
        )
        self.faults = ReplicaFaults(self.world, self.network, self.nodes, self._may_lose_disk)
        self.workload = ClusterWorkload(
            self.world,
            self.network,
            config,
            self.nodes,
            self.history,
            self.checks.excused,
            self.receipts,
        )
        self.recovery_ms = -1
        self._steps_before = 0
        self.world.after_step.append(self.checks.step)

    def _node(self, number: int) -> ClusterNode:
        config = self.scenario.config
        node = ClusterNode(
            self.world,
            self.network,
            name=f"n{number + 1}",
            node_id=number + 1,
            settings=_settings(config, is_controller=number < config.controllers),
            skew_ppm=config.skew_ppm * (number % 3 - 1),
            latency=(0, config.disk_max_ms),
            find=self._by_name.get,
        )
        self._by_name[node.name] = node
        return node

    def _may_lose_disk(self, node: ClusterNode) -> bool:
        """One voter may, as long as the others are a majority."""
        voters = self.nodes[: self.scenario.config.controllers]
        if node in voters and (len(voters) == 1 or any(each.disks > 1 for each in voters)):
            return False
        return self.checks.may_lose(node)

    def close(self) -> None:
        for node in self.nodes:
            if node.performer is not None:
                node.performer.die()

    # -- faults ---------------------------------------------------------------------------------

    def run(self) -> None:
        config, world = self.scenario.config, self.world
        first = ",".join(
            f"{each.node_id}@{each.name}:{CONTROLLER_PORT}:{_directory_id(each.node_id)}"
            for each in self.nodes[: config.controllers]
        )
        features = {"eligible.leader.replicas.version": config.elr}
        starts = world.dice("starts")
        for node in self.nodes:
            node.format(_CLUSTER_ID, first, features)
            world.after(starts.below(500), f"{node.name} on", node.start)
        for fault in self.scenario.faults:
            world.at(fault.at_ms, f"fault {fault}", lambda f=fault: self.faults.strike(f))  # type: ignore[misc]
        self.workload.begin()
        self.advance(config.fault_ms)
        self._recover()
        self._end()

    def advance(self, until_ms: int) -> None:
        while self.world.now_ms < until_ms:
            self.world.run(min(self.world.now_ms + 1_000, until_ms))
            steps = self.world.trace.count
            if steps - self._steps_before > _MAX_STEPS_A_SECOND:
                raise Violation("NoBusyLoop", f"{steps - self._steps_before} steps in a second")
            self._steps_before = steps

    # -- recovery -------------------------------------------------------------------------------

    def _recover(self) -> None:
        world = self.world
        world.note("heal")
        self.faults.heal()
        self.workload.heal()
        paused_ms = max(each.paused_until_ms for each in self.nodes)
        began_ms = max(world.now_ms, paused_ms, self.network.arrived_ms)
        # A node that stands still is in every ISR until its session ends. What a cut held back
        # comes when the cut was to end, and nothing on its link comes before.
        self.advance(began_ms)
        self._until_well(began_ms)
        self.recovery_ms = world.now_ms - began_ms
        while left := self.workload.unfinished():
            if world.now_ms - began_ms > _CLIENTS_MS:
                raise Violation("Liveness", "; ".join(left))
            self.advance(world.now_ms + _LOOK_MS)
        # What clients wrote last reaches the followers. One that was cut off silently while nothing
        # was written is noticed only now.
        self.advance(world.now_ms + self._calm_ms)
        self._until_well(world.now_ms)
        self.advance(world.now_ms + _CALM_MS)
        self._until_told()

    def _until_told(self) -> None:
        """Brokers write to their journals by the clock, perhaps just now: a follower hears a moment
        later that it is committed. Whoever never hears of it is found by the checks."""
        end_ms = self.world.now_ms + _CALM_MS
        while self.world.now_ms < end_ms and not self._is_told():
            self.advance(self.world.now_ms + _TOLD_MS)

    def _is_told(self) -> bool:
        for topic in self.checks.image.topics.values():
            for number, state in topic.partitions.items():
                place = TopicPartition(topic.name, number)
                logs = [hosted_on(self.nodes[each - 1], place).log for each in state.isr]
                if len({each.high_watermark for each in logs}) > 1:
                    return False
        return True

    @property
    def _calm_ms(self) -> int:
        is_half_open = any(
            each.kind == "reset" and each.number("half") for each in self.scenario.faults
        )
        return _SILENT_MS if is_half_open else _CALM_MS

    def _until_well(self, began_ms: int) -> None:
        while complaint := self._complaint():
            if self.world.now_ms - began_ms > RECOVERY_MS:
                raise Violation("Liveness", complaint)
            self.advance(self.world.now_ms + _LOOK_MS)

    def _complaint(self) -> str | None:
        """Why the cluster has not recovered; None: it has."""
        for node in self.nodes:
            if node.broker is None or not node.is_serving:
                return f"{node.name} does not serve"
            if has_failed(node) and not node.is_leaving:
                # What a process gave up on is tried again by the next one.
                node.stop(down_ms=100)
                return f"{node.name} has a failed log"
        image = self.checks.image
        for broker in image.brokers.values():
            if broker.fenced:
                return f"broker {broker.broker_id} is fenced"
        for topic in image.topics.values():
            for number, state in topic.partitions.items():
                if state.leader < 0:
                    self._rescue(TopicPartition(topic.name, number), state)
                    return f"{topic.name}-{number} has no leader: {state}"
                if set(state.isr) != set(state.replicas) or state.is_reassigning:
                    return f"{topic.name}-{number} is not in sync: {state}"
        return None

    def _rescue(self, place: TopicPartition, state: PartitionImage) -> None:
        """Whoever may lead has lost its disk: only an operator can say that the partition goes on
        from what others have."""
        may_lead = {*state.isr, *state.eligible_leader_replicas, *state.last_known_elr}
        lost = {each.node_id for each in self.nodes if each.disks > 1}
        is_lost = may_lead <= lost & self.checks.damaged(place)
        if may_lead and is_lost and place not in self.checks.rescued:
            self.world.mark("an operator elected uncleanly")
            self.checks.rescued.add(place)
            self.checks.excused.add(place)
            self.workload.elect_uncleanly(place)

    def _end(self) -> None:
        compacted = frozenset(name for name in TOPIC_SETTINGS if is_compacted(name))
        image = self.checks.image
        self.receipts.look_again()
        if JOURNAL not in self.checks.excused:
            check_secrets(self.nodes, image)
        check_replicas(self.nodes, image, compacted, self.checks.excused)
        read_logs(self.world, self.history, self.nodes, image)
        jumps = any(fault.kind == "jump" for fault in self.scenario.faults)
        retention_ms = 0 if jumps else self.scenario.config.delete_retention_ms
        for name in sorted(compacted):
            self.history.add(
                TopicFacts(topic=name, compacted=True, delete_retention_ms=retention_ms)
            )
        check_history(self.history, self.checks.excused, LEDGER, self.world)


def _directory_id(node_id: int) -> str:
    return uuid_to_text(bytes([node_id]) * 16)


def is_compacted(topic: str) -> bool:
    return TOPIC_SETTINGS[topic].get("cleanup.policy") == "compact"


def _settings(config: Config, *, is_controller: bool) -> dict[str, str]:
    replicas, min_isr = str(config.replicas), str(min(config.min_isr, config.replicas))
    servers = ",".join(f"n{each + 1}:{CONTROLLER_PORT}" for each in range(config.controllers))
    settings = {
        "process.roles": "broker,controller" if is_controller else "broker",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": servers,
        "broker.session.timeout.ms": str(config.session_ms),
        "broker.heartbeat.interval.ms": str(config.session_ms * 2 // 9),
        "replica.lag.time.max.ms": str(config.lag_ms),
        "num.replica.fetchers": str(config.fetchers),
        "replica.socket.timeout.ms": str(_SOCKET_MS),
        "default.replication.factor": replicas,
        "min.insync.replicas": min_isr,
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min_isr,
        "ledgerstone.erasures.topic.replication.factor": replicas,
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.backoff.ms": "1000",
        "log.initial.task.delay.ms": "500",
        "log.flush.offset.checkpoint.interval.ms": "4000",
        "log.segment.delete.delay.ms": "500",
        "connections.max.idle.ms": "30000",
        # Clocks jump by ten days: nothing may expire by that, nor lie too far ahead.
        "log.message.timestamp.after.max.ms": "9223372036854775807",
        "log.retention.ms": "-1",
        "producer.id.expiration.ms": "2147483647",
        "offsets.retention.minutes": "2147483647",
        "transactional.id.expiration.ms": "2147483647",
    }
    if config.flush_ms:
        settings["log.flush.interval.ms"] = str(config.flush_ms)
    return {name: value for name, value in settings.items() if name in BROKER_KEYS}
