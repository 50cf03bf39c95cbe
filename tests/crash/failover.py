"""Three real processes, and their leader lost again and again. `bench.failover` measures it.

Checked after every round: one leader an epoch, every acknowledged topic on every node, none twice.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from golden.cluster_plan import COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from tests.kit.namespaces import Namespaces
from tests.kit.nemesis import Failover, Nemesis, TopicBook
from tests.kit.nodes import KAFKA, Cluster

NODES: Final = (1, 2, 3)
CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


def plan_of_three(
    namespaces: Namespaces | None = None, settings: Mapping[str, str] = NO_SETTINGS
) -> ClusterPlan:
    def node(node_id: int) -> PlannedNode:
        if namespaces is None:
            return PlannedNode(
                node_id=node_id, roles=COMBINED, port=free_port(), controller_port=free_port()
            )
        return PlannedNode(
            node_id=node_id,
            roles=COMBINED,
            port=CLIENT_PORT,
            controller_port=CONTROLLER_PORT,
            host=namespaces.address(node_id),
        )

    return ClusterPlan(nodes=[node(each) for each in NODES], settings=settings)


def cluster_of_three(
    kind: str,
    work: Path,
    namespaces: Namespaces | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Cluster:
    """Formatted, not started."""
    cluster = Cluster(
        plan=plan_of_three(namespaces, settings),
        work=work,
        jars=fetch_jars() if kind == KAFKA else None,
        kinds=dict.fromkeys(NODES, kind),
        prefixes={} if namespaces is None else {n: namespaces.prefix(n) for n in NODES},
    )
    cluster.format()
    return cluster


def rounds(kind: str, fault: str, count: int, work: Path) -> Iterator[Failover]:
    with cluster_of_three(kind, work) as cluster:
        cluster.start()
        book = TopicBook(cluster)
        nemesis = Nemesis(cluster, book)
        book.until_created(list(NODES))
        for _ in range(count):
            found = nemesis.kill_the_leader() if fault == "kill" else nemesis.pause_the_leader()
            book.check()
            yield found
        cluster.kill()
        cluster.assert_logs_agree()
