"""Three nodes of one program, and a fourth that can join them. Shell.

Both programs read the same server.properties and run with their defaults; Kafka gets the heap and
the collector that its kafka-server-start asks for.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.nemesis.arena import Replicas
from bench.nemesis.clients import our_client
from bench.peers.contestants import KAFKA_JVM
from bench.peers.processes import tree, tree_cpu_s
from golden.cluster_plan import BROKER, COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_node import KafkaNode
from golden.kafka_tools import KafkaJars
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterReassignmentsPartition,
    AlterReassignmentsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.nodes import Cluster

NODES: Final = (1, 2, 3)
FOURTH: Final = 4
REPLICAS: Final = 3
LIMIT_S: Final = 300.0
# Defaults of both programs, where the plan of small clusters has less.
SETTINGS: Final[Mapping[str, str]] = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "background.threads": "10",
    "log.cleaner.dedupe.buffer.size": "134217728",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "50",
    "min.insync.replicas": "2",
}


def give_jvm(cluster: Cluster) -> None:
    """As Kafka's own script starts it."""
    for node in cluster.nodes.values():
        if isinstance(node, KafkaNode):
            node.jvm = KAFKA_JVM


def pids_of(cluster: Cluster) -> list[int]:
    running: list[Any] = cluster.running
    return [each.pid for each in running]


class Trio:
    def __init__(self, kind: str, work: Path, jars: KafkaJars | None) -> None:
        self.kind = kind
        self.work = work
        nodes = [
            PlannedNode(node_id=each, roles=COMBINED, port=free_port(), controller_port=free_port())
            for each in NODES
        ]
        nodes.append(PlannedNode(node_id=FOURTH, roles=BROKER, port=free_port(), controller_port=0))
        self.cluster = Cluster(
            plan=ClusterPlan(nodes=nodes, settings=SETTINGS),
            work=work,
            jars=jars,
            kinds=dict.fromkeys((*NODES, FOURTH), kind),
        )
        give_jvm(self.cluster)

    def start(self) -> None:
        self.cluster.format()
        self.cluster.start(*NODES)

    # -- costs --------------------------------------------------------------------------------

    @property
    def cpu_s(self) -> float:
        return sum(tree_cpu_s(each) for each in pids_of(self.cluster))

    @property
    def pss_bytes(self) -> int:
        """Pages that processes share are counted once in all."""
        return sum(_pss_bytes(pid) for root in pids_of(self.cluster) for pid in tree(root))

    # -- topics -------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        return ",".join(self.cluster[each].planned.bootstrap for each in NODES)

    def create(self, name: str, partitions: int) -> None:
        with our_client(self.bootstrap, "bench", 30_000) as client:
            topic = NewTopic(
                name=name, partitions=partitions, replication_factor=REPLICAS, configs={}
            )
            create_topic(client, topic)
        self.wait_whole()

    def create_on(self, name: str, assignments: Sequence[Sequence[int]]) -> None:
        """Replicas of each partition as named."""
        topic = CreateTopicsRequestTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreateTopicsAssignment(partition_index=index, broker_ids=list(each))
                for index, each in enumerate(assignments)
            ],
        )
        said = self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7)
        assert not said.topics[0].error_code, said.topics[0].error_message
        self.wait_whole()

    def move(self, topic: str, targets: Mapping[int, Sequence[int]]) -> None:
        """Returns when every new replica is in sync and the old ones are gone."""
        partitions = [
            AlterReassignmentsPartition(partition_index=index, replicas=list(each))
            for index, each in targets.items()
        ]
        moved = AlterReassignmentsTopic(name=topic, partitions=partitions)
        request = AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=20_000)
        said = self._ask(request, 1)
        assert not said.error_code, said.error_message

        def is_done() -> bool:
            now = {each.partition: each for each in self.replicas() if each.topic == topic}
            return all(
                index in now and set(now[index].replicas) == set(now[index].isr) == set(replicas)
                for index, replicas in targets.items()
            )

        wait_until(is_done, f"{topic} is on {dict(targets)}", LIMIT_S)

    def replicas(self, via: int | None = None) -> list[Replicas]:
        said = self._ask(MetadataRequest(topics=None), 12, via)
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

    def leader_of(self, topic: str, partition: int = 0) -> int:
        found = [
            each.leader
            for each in self.replicas()
            if (each.topic, each.partition) == (topic, partition)
        ]
        return found[0] if found else -1

    def wait_whole(self) -> None:
        def is_whole() -> bool:
            nodes = [each for each in self.cluster.running if each.planned.is_broker]
            if len(nodes) < len(NODES):
                return False
            views = [self.replicas(each.node_id) for each in nodes]
            return all(view and all(each.is_whole for each in view) for view in views)

        wait_until(is_whole, f"replicas of {self.kind} are in sync", LIMIT_S)

    def _ask(self, request: Any, version: int, via: int | None = None) -> Any:  # noqa: ANN401
        node = self.cluster[via] if via else self.cluster.running[0]
        return ask(node.planned.bootstrap, request, version, timeout_s=30)


def _pss_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    line = next(each for each in text.splitlines() if each.startswith("Pss:"))
    return int(line.split()[1]) * 1024


@contextmanager
def trio(kind: str, work: Path, jars: KafkaJars | None) -> Iterator[Trio]:
    """Started; its directory is gone afterwards."""
    found = Trio(kind, work / kind, jars)
    try:
        with found.cluster:
            found.start()
            yield found
    finally:
        shutil.rmtree(work / kind, ignore_errors=True)
