"""Three brokers of ours in processes of their own: they copy each other, byte for byte.

Through load with acks=all, a kill, and a stop; a broker that was away gets what it missed.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from golden.cluster_plan import COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.nodes import LEDGERSTONE, Cluster, batches

pytestmark = pytest.mark.slow

NODES: Final = (1, 2, 3)
PARTITIONS: Final = 6
TOPIC: Final = "replicated"
SETTINGS: Final = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    nodes = [
        PlannedNode(node_id=each, roles=COMBINED, port=free_port(), controller_port=free_port())
        for each in NODES
    ]
    found = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=SETTINGS),
        work=tmp_path_factory.mktemp("replicas"),
        jars=None,
        kinds=dict.fromkeys(NODES, LEDGERSTONE),
    )
    found.format()
    with found:
        found.start()
        _create(found)
        yield found


def _create(cluster: Cluster) -> None:
    minimum = CreateTopicsRequestConfig(name="min.insync.replicas", value="2")
    topic = CreateTopicsRequestTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=3, configs=[minimum]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    said: Any = ask(cluster[1].planned.bootstrap, request, 7)
    assert said.topics[0].error_code == ErrorCode.NONE, said


def _states(cluster: Cluster) -> dict[int, Any]:
    via = cluster.running[0].planned.bootstrap
    said: Any = ask(via, MetadataRequest(topics=None), 12)
    topic = next(each for each in said.topics if each.name == TOPIC)
    return {each.partition_index: each for each in topic.partitions}


def _wait_in_sync(cluster: Cluster, nodes: set[int]) -> None:
    def are_in_sync() -> bool:
        states = _states(cluster).values()
        return len(states) == PARTITIONS and all(set(each.isr_nodes) == nodes for each in states)

    wait_until(are_in_sync, f"{nodes} are in sync", 60)


def _produce(cluster: Cluster, count: int, note: str) -> set[bytes]:
    """What was acknowledged by every replica in sync."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.plan.bootstrap,
            "log_level": 0,
            "acks": "all",
            "enable.idempotence": True,
            "batch.num.messages": 50,
        }
    )
    acked: set[bytes] = set()
    for number in range(count):
        value = f"{note}-{number}".encode()
        producer.produce(
            TOPIC,
            value,
            partition=number % PARTITIONS,
            on_delivery=lambda error, said: (
                acked.add(said.value() or b"") if error is None else None
            ),
        )
    assert producer.flush(60) == 0
    assert len(acked) == count
    return acked


def _logs(cluster: Cluster, number: int) -> list[dict[int, bytes]]:
    return [dict(batches(cluster[each].data / f"{TOPIC}-{number}")) for each in NODES]


def _wait_equal(cluster: Cluster) -> None:
    for number in range(PARTITIONS):

        def are_equal(number: int = number) -> bool:
            first, *others = _logs(cluster, number)
            return bool(first) and all(each == first for each in others)

        wait_until(are_equal, f"all replicas of partition {number} are equal", 60)


def test_replicas_are_equal(cluster: Cluster) -> None:
    _wait_in_sync(cluster, set(NODES))
    _produce(cluster, 3_000, "first")

    assert {each.leader_id for each in _states(cluster).values()} == set(NODES)
    _wait_equal(cluster)


def test_killed_broker_comes_back_and_gets_what_it_missed(cluster: Cluster) -> None:
    _wait_in_sync(cluster, set(NODES))
    victim = _states(cluster)[0].leader_id
    cluster[victim].kill()
    acked = _produce(cluster, 1_000, "killed")
    cluster.start(victim)
    _wait_in_sync(cluster, set(NODES))

    _wait_equal(cluster)
    found = b"".join(each for log in range(PARTITIONS) for each in _logs(cluster, log)[0].values())
    assert [each for each in acked if each not in found] == []


def test_stopped_broker_comes_back_and_gets_what_it_missed(cluster: Cluster) -> None:
    _wait_in_sync(cluster, set(NODES))
    victim = _states(cluster)[1].leader_id
    cluster[victim].stop()
    _produce(cluster, 1_000, "stopped")
    cluster.start(victim)
    _wait_in_sync(cluster, set(NODES))

    _wait_equal(cluster)
