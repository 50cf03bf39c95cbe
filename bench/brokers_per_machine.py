"""One, two and four brokers of ours on this machine, beside one of Apache Kafka with its threads.

    PYTHONPATH=tools python -m bench.brokers_per_machine [--quick] [--rounds N] [--brokers 1,2,4]

A broker of ours works in one thread, so several cores are several brokers; Kafka's has threads of
its own. Four clients write and read twelve partitions, RF 1, spread over whatever brokers there
are. Programs take turns, and the order changes with each round. Clients share the machine: on two
cores they leave less than one for all brokers together.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.nemesis.clients import our_client
from bench.peers.jars import fetch_kafka
from bench.peers.load import Load, Moved, loads, together
from bench.peers.processes import ended_by_signals, tree_cpu_s, tree_rss_bytes
from bench.replication.trio import SETTINGS, give_jvm, pids_of
from bench.storage import scratch
from golden.cluster_plan import BROKER, COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import KafkaJars
from ledgerstone.client.admin import NewTopic, create_topic
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster

PARTITIONS: Final = 12
CLIENTS: Final = 4
ROUNDS: Final = 3
QUICK_SHARE: Final = 20
MB: Final = 1e6
# A broker may be alone.
_ONE_REPLICA: Final = {
    **SETTINGS,
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "min.insync.replicas": "1",
}


class Case(NamedTuple):
    value_bytes: int
    codec: str
    messages: int  # of each client

    @property
    def label(self) -> str:
        return f"{self.value_bytes} B, {self.codec}"

    @property
    def topic(self) -> str:
        return f"topic-{self.value_bytes}-{self.codec}"


CASES: Final = (Case(1000, "none", 150_000), Case(1000, "lz4", 150_000), Case(100, "none", 250_000))


class Figures(NamedTuple):
    produce_mb_s: float
    produce_cpu_s: float  # of all brokers, for a GB
    consume_mb_s: float
    consume_cpu_s: float
    memory_mb: float


class Brokers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self._cluster.plan.bootstrap

    @property
    def cpu_s(self) -> float:
        return sum(tree_cpu_s(each) for each in pids_of(self._cluster))

    @property
    def memory_mb(self) -> float:
        return sum(tree_rss_bytes(each) for each in pids_of(self._cluster)) / MB


@contextmanager
def brokers(kind: str, count: int, work: Path, jars: KafkaJars | None) -> Iterator[Brokers]:
    """Started. The first is the controller too."""
    nodes = [
        PlannedNode(
            node_id=number,
            roles=COMBINED if number == 1 else BROKER,
            port=free_port(),
            controller_port=free_port() if number == 1 else 0,
        )
        for number in range(1, count + 1)
    ]
    cluster = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=_ONE_REPLICA),
        work=work,
        jars=jars,
        kinds=dict.fromkeys(range(1, count + 1), kind),
    )
    give_jvm(cluster)
    with cluster:
        cluster.format()
        cluster.start()
        yield Brokers(cluster)


def measured(side: Brokers, case: Case, clients: Sequence[Load], share: int) -> Figures:
    messages = case.messages // share
    job = {
        "bootstrap": side.bootstrap,
        "topic": case.topic,
        "partitions": PARTITIONS,
        "value_bytes": case.value_bytes,
        "messages": messages,
    }
    before = side.cpu_s
    written = _at_once(clients, "produce", {**job, "acks": "all", "codec": case.codec})
    middle = side.cpu_s
    read = _at_once(clients, "consume", job)
    return Figures(
        written.mb_s,
        (middle - before) / (written.bytes / 1e9),
        read.mb_s,
        (side.cpu_s - middle) / (read.bytes / 1e9),
        side.memory_mb,
    )


def _at_once(clients: Sequence[Load], name: str, job: dict[str, object]) -> Moved:
    for each in clients:
        each.ask(name, **job)
    return together([Moved(*each.answer()) for each in clients])


def visit(kind: str, count: int, jars: KafkaJars | None, share: int) -> dict[Case, Figures]:
    """The first load of each case warms up, and does not count."""
    found: dict[Case, Figures] = {}
    with scratch() as work, brokers(kind, count, work, jars) as side, ExitStack() as stack:
        with our_client(side.bootstrap, "bench", 30_000) as client:
            for case in CASES:
                create_topic(client, NewTopic(name=case.topic, partitions=PARTITIONS, configs={}))
        clients = loads(stack, CLIENTS)
        for case in CASES:
            measured(side, case, clients, share * 5)
            found[case] = measured(side, case, clients, share)
            print(f"{label(kind, count)}, {case.label}: {found[case]}", flush=True)
    return found


def label(kind: str, count: int) -> str:
    if kind == KAFKA:
        return "Apache Kafka, one broker"
    return "one broker" if count == 1 else f"{count} brokers"


def rows(found: dict[tuple[str, int], list[dict[Case, Figures]]]) -> Iterator[str]:
    """Medians, as a table in Markdown."""
    yield "| load | brokers | produce | CPU | consume | CPU | memory |"
    yield "|---|---|---|---|---|---|---|"
    for case in CASES:
        for (kind, count), rounds in found.items():
            columns = zip(*(each[case] for each in rounds), strict=True)
            now = Figures(*(median(each) for each in columns))
            yield (
                f"| {case.label} | {label(kind, count)} | {now.produce_mb_s:,.0f} MB/s "
                f"| {now.produce_cpu_s:.2f} s/GB | {now.consume_mb_s:,.0f} MB/s "
                f"| {now.consume_cpu_s:.2f} s/GB | {now.memory_mb:,.0f} MB |"
            )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="little data, one round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--brokers", default="1,2,4", help="how many of ours")
    options = parser.parse_args(arguments)
    jars = fetch_kafka()
    if isinstance(jars, str):
        print(jars)
    sides = [(LEDGERSTONE, int(each)) for each in options.brokers.split(",")]
    if not isinstance(jars, str):
        sides.append((KAFKA, 1))
    found: dict[tuple[str, int], list[dict[Case, Figures]]] = {each: [] for each in sides}
    with ended_by_signals():
        for number in range(1 if options.quick else options.rounds):
            for kind, count in sides if number % 2 == 0 else sides[::-1]:
                known = None if isinstance(jars, str) else jars
                share = QUICK_SHARE if options.quick else 1
                found[kind, count].append(visit(kind, count, known, share))
    print("\n".join(rows(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
