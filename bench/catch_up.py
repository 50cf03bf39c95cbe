"""How fast a replica that was away copies what it missed, and what following costs without traffic.

    PYTHONPATH=tools python -m bench.catch_up ledgerstone --mb 600 --partitions 4
    PYTHONPATH=tools python -m bench.catch_up kafka --mb 600 --partitions 4
    PYTHONPATH=tools python -m bench.catch_up ledgerstone --idle 1000

Two nodes on one machine. The second is killed, the first takes the load, the second starts again;
the time counts from the first copied bytes on, so that a slow start is not in it.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from golden.cluster_plan import BROKER, COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster

LEADER: Final = 1
FOLLOWER: Final = 2
TOPIC: Final = "copied"
SETTINGS: Final = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
VALUE_BYTES: Final = 1000
IDLE_S: Final = 20


@contextmanager
def two_nodes(kind: str, work: Path) -> Iterator[Cluster]:
    nodes = [
        PlannedNode(node_id=LEADER, roles=COMBINED, port=free_port(), controller_port=free_port()),
        PlannedNode(node_id=FOLLOWER, roles=BROKER, port=free_port(), controller_port=0),
    ]
    cluster = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=SETTINGS),
        work=work,
        jars=fetch_jars() if kind == KAFKA else None,
        kinds=dict.fromkeys((LEADER, FOLLOWER), kind),
    )
    cluster.format()
    with cluster:
        cluster.start()
        yield cluster


def create(cluster: Cluster, partitions: int) -> None:
    """All of them led by the first node."""
    assigned = [
        CreateTopicsAssignment(partition_index=number, broker_ids=[LEADER, FOLLOWER])
        for number in range(partitions)
    ]
    topic = CreateTopicsRequestTopic(
        name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assigned
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    said: Any = ask(cluster[LEADER].planned.bootstrap, request, 7, timeout_s=60)
    assert said.topics[0].error_code == ErrorCode.NONE, said.topics[0].error_message
    wait_until(lambda: len(directories(cluster, FOLLOWER)) == partitions, "they are there", 60)


def directories(cluster: Cluster, node_id: int) -> list[Path]:
    return list(cluster[node_id].data.glob(f"{TOPIC}-*"))


def size_of(cluster: Cluster, node_id: int) -> int:
    return sum(
        each.stat().st_size for path in directories(cluster, node_id) for each in path.glob("*.log")
    )


def produce(cluster: Cluster, size_mb: int, partitions: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster[LEADER].planned.bootstrap,
            "acks": 1,
            "linger.ms": 20,
            "batch.size": 65_536,
            "log_level": 0,
        }
    )
    value = os.urandom(VALUE_BYTES)
    for number in range(size_mb * 1_000_000 // VALUE_BYTES):
        while len(producer) > 50_000:
            producer.poll(0.1)
        producer.produce(TOPIC, value, partition=number % partitions)
    assert producer.flush(120) == 0


def cpu_s(cluster: Cluster, node_id: int) -> float:
    process = getattr(cluster[node_id], "process", None)
    assert process is not None
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def catch_up(cluster: Cluster, size_mb: int, partitions: int) -> str:
    create(cluster, partitions)
    cluster[FOLLOWER].kill()
    produce(cluster, size_mb, partitions)
    wanted = size_of(cluster, LEADER)
    cluster[FOLLOWER].start()
    wait_until(lambda: size_of(cluster, FOLLOWER) > wanted // 50, "the first bytes are there", 60)
    began_s, had = time.perf_counter(), size_of(cluster, FOLLOWER)
    before = {each: cpu_s(cluster, each) for each in (LEADER, FOLLOWER)}
    wait_until(lambda: size_of(cluster, FOLLOWER) >= wanted, "all is there", 300)
    took_s, copied_mb = time.perf_counter() - began_s, (wanted - had) / 1e6
    spent = {each: cpu_s(cluster, each) - before[each] for each in before}
    return (
        f"{copied_mb:.0f} MB of {partitions} partitions in {took_s:.2f} s: "
        f"{copied_mb / took_s:.0f} MB/s, CPU of the follower {spent[FOLLOWER]:.2f} s, "
        f"of the leader {spent[LEADER]:.2f} s"
    )


def idle(cluster: Cluster, partitions: int) -> str:
    create(cluster, partitions)
    time.sleep(5)
    before = {each: cpu_s(cluster, each) for each in (LEADER, FOLLOWER)}
    time.sleep(IDLE_S)
    share = {each: (cpu_s(cluster, each) - before[each]) / IDLE_S for each in before}
    return (
        f"{partitions} partitions without traffic: follower {share[FOLLOWER]:.1%} of a core, "
        f"leader and controller {share[LEADER]:.1%}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("kind", choices=(KAFKA, LEDGERSTONE))
    options.add_argument("--mb", type=int, default=600)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--idle", type=int, help="partitions without traffic, instead of a load")
    chosen = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="catch-up-") as work,
        two_nodes(chosen.kind, Path(work)) as cluster,
    ):
        if chosen.idle:
            said = idle(cluster, chosen.idle)
        else:
            said = catch_up(cluster, chosen.mb, chosen.partitions)
        print(f"{chosen.kind}: {said}; load of the machine {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
