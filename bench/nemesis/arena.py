"""Three nodes, each with a host, a disk and a clock that can be spoilt. Shell.

Needs root: hosts are network namespaces, disks are tmpfs.
"""

import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.nemesis.sabotage import Sabotage, compiled
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from ledgerstone.protocol.messages.metadata import MetadataRequest
from tests.compat.wire import ask
from tests.crash.failover import NODES, plan_of_three
from tests.kit.namespaces import Namespaces
from tests.kit.nodes import KAFKA, Cluster, Node
from tests.kit.small_disk import SmallDisk

DISK_MB: Final = 512
ASK_S: Final = 2.0
GROUP, TRANSACTION = 0, 1
# Short times, so that an hour holds many faults; the same for both programs.
SETTINGS: Final[Mapping[str, str]] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "group.min.session.timeout.ms": "1000",
    "log.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "500",
    "log.index.size.max.bytes": "65536",
    # Clocks jump by days here, and nothing may expire by that.
    "log.retention.ms": "-1",
    "offsets.retention.minutes": "5256000",
    "transactional.id.expiration.ms": "2147483647",
    "producer.id.expiration.ms": "2147483647",
}


class Replicas(NamedTuple):
    """A partition as metadata shows it."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        return self.leader in NODES and set(self.isr) == set(self.replicas)


@dataclass(slots=True, kw_only=True)
class Arena:
    cluster: Cluster
    network: Namespaces
    disks: Mapping[int, SmallDisk]
    # Empty where there is no compiler.
    sabotage: Mapping[int, Sabotage]

    @property
    def bootstrap(self) -> str:
        return self.cluster.plan.bootstrap

    def ask_anyone(self, request: ApiMessage, version: int) -> Any:  # noqa: ANN401
        """The first answer of a running node; None if there is none."""
        for node in self.cluster.running:
            answer = self.ask(node, request, version)
            if answer is not None:
                return answer
        return None

    def ask(self, node: Node, request: ApiMessage, version: int) -> Any:  # noqa: ANN401
        try:
            return ask(node.planned.bootstrap, request, version, timeout_s=ASK_S)
        except (OSError, struct.error, AssertionError):
            return None

    def replicas(self, node: Node | None = None) -> list[Replicas]:
        """Of all topics, as this node or any one knows them."""
        request = MetadataRequest(topics=None)
        said = self.ask_anyone(request, 12) if node is None else self.ask(node, request, 12)
        if said is None:
            return []
        return [
            Replicas(
                topic.name,
                each.partition_index,
                each.leader_id,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
            )
            for topic in said.topics
            for each in topic.partitions
        ]

    def coordinator(self, key: str, kind: int) -> int | None:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        said = self.ask_anyone(request, 4)
        if said is None or said.coordinators[0].error_code:
            return None
        return int(said.coordinators[0].node_id)

    def is_whole(self) -> bool:
        """Every node runs and knows that every replica is in sync."""
        nodes = self.cluster.running
        if len(nodes) < len(NODES):
            return False
        views = [self.replicas(each) for each in nodes]
        return all(view and all(each.is_whole for each in view) for view in views)

    def restart_if_ended(self) -> list[int]:
        """Nodes that had ended by themselves."""
        ended = [each for each in self.cluster.nodes.values() if not each.is_running]
        for node in ended:
            if getattr(node, "process", None) is not None:
                node.forget()
            node.start()
        for node in ended:
            node.wait_started()
        return [each.node_id for each in ended]


@contextmanager
def arena(kind: str, work: Path, settings: Mapping[str, str] = SETTINGS) -> Iterator[Arena]:
    """Formatted, not started."""
    library = compiled(work)
    with ExitStack() as stack:
        network = stack.enter_context(Namespaces(len(NODES)))
        sabotage = {}
        if library is not None:
            sabotage = {each: Sabotage(library, work / f"sabotage-{each}") for each in NODES}
        prefixes = {
            each: (*network.prefix(each), *(sabotage[each].prefix if sabotage else ()))
            for each in NODES
        }
        disks = {
            each: stack.enter_context(SmallDisk(work / f"node-{each}" / "data", DISK_MB))
            for each in NODES
        }
        cluster = Cluster(
            plan=plan_of_three(network, settings),
            work=work,
            jars=fetch_jars() if kind == KAFKA else None,
            kinds=dict.fromkeys(NODES, kind),
            prefixes=prefixes,
        )
        cluster.format()
        stack.enter_context(cluster)
        yield Arena(cluster=cluster, network=network, disks=disks, sabotage=sabotage)
