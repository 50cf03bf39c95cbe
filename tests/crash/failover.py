"""Three real processes lose their leader again and again; how long until a topic can be made?

    PYTHONPATH=tools python -m tests.crash.failover ledgerstone --rounds 50
    PYTHONPATH=tools python -m tests.crash.failover kafka --rounds 10 --fault pause

Both read the same server.properties (`process.roles=broker,controller`). Checked after every round:
one leader an epoch, every acknowledged topic on every node, none twice.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Final

from golden.cluster_plan import COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from tests.kit.namespaces import Namespaces
from tests.kit.nemesis import Failover, Nemesis, TopicBook
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster

NODES: Final = (1, 2, 3)
CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093


def plan_of_three(namespaces: Namespaces | None = None, **settings: str) -> ClusterPlan:
    def node(node_id: int) -> PlannedNode:
        if namespaces is None:
            ports = {"port": free_port(), "controller_port": free_port()}
            return PlannedNode(node_id=node_id, roles=COMBINED, **ports)
        return PlannedNode(
            node_id=node_id,
            roles=COMBINED,
            port=CLIENT_PORT,
            controller_port=CONTROLLER_PORT,
            host=namespaces.address(node_id),
        )

    return ClusterPlan(nodes=[node(each) for each in NODES], settings=settings)


def cluster_of_three(
    kind: str, work: Path, namespaces: Namespaces | None = None, **settings: str
) -> Cluster:
    """Formatted, not started."""
    cluster = Cluster(
        plan=plan_of_three(namespaces, **settings),
        work=work,
        jars=fetch_jars() if kind == KAFKA else None,
        kinds=dict.fromkeys(NODES, kind),
        prefixes={} if namespaces is None else {n: namespaces.prefix(n) for n in NODES},
    )
    cluster.format()
    return cluster


def run(kind: str, fault: str, rounds: int, work: Path) -> list[Failover]:
    found = []
    with cluster_of_three(kind, work) as cluster:
        cluster.start()
        book = TopicBook(cluster)
        nemesis = Nemesis(cluster, book)
        book.until_created(list(NODES))
        for number in range(rounds):
            each = nemesis.kill_the_leader() if fault == "kill" else nemesis.pause_the_leader()
            book.check()
            found.append(each)
            print(f"{number + 1}: {each.fault} node {each.former.leader_id}, {each.topic_s:.2f} s")
        cluster.kill()
        cluster.assert_logs_agree()
    print(f"{len(book.created)} topics, {len(book.doubtful)} without an answer")
    return found


def quantile(values: list[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("kind", choices=(KAFKA, LEDGERSTONE))
    options.add_argument("--rounds", type=int, default=50)
    options.add_argument("--fault", choices=("kill", "pause"), default="kill")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="failover-") as work:
        found = run(chosen.kind, chosen.fault, chosen.rounds, Path(work))
    times = [each.topic_s for each in found]
    print(
        f"{chosen.kind}, {chosen.fault}, {len(times)} rounds: p50 {statistics.median(times):.2f} s,"
        f" p99 {quantile(times, 0.99):.2f} s, least {min(times):.2f} s, most {max(times):.2f} s"
    )


if __name__ == "__main__":
    main()
