"""Coordinators lost while groups and transactions use them: scenarios 89 to 93 on several brokers.

The first test runs by default: three brokers in this process, real connections and disks. The
others are processes that are killed, paused and restarted."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.server.broker import Broker
from ledgerstone.types import TopicPartition
from tests.kit.broker import wait_until
from tests.kit.exactly_once import (
    Copier,
    assert_exactly_once,
    committed,
    produce,
    read_all,
)
from tests.kit.loopback_cluster import LoopbackCluster

SOURCE, TARGET = "source", "target"
PARTITIONS: Final = 3
# As many as make every broker the coordinator of something.
SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
    "replica.fetch.wait.max.ms": "100",
}


def bootstrap_of(cluster: LoopbackCluster) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in cluster.client_ports.values())


def leader_of(cluster: LoopbackCluster, topic: str, number: int) -> int:
    state = cluster.image(next(iter(cluster.nodes))).partition(topic, number)
    assert state is not None
    return state.leader


def is_in_sync(cluster: LoopbackCluster, count: int) -> bool:
    image = cluster.image(next(iter(cluster.nodes)))
    return all(
        len(state.isr) == count and state.leader >= 0
        for topic in image.topics.values()
        for state in topic.partitions.values()
    )


def replica_of(cluster: LoopbackCluster, node_id: int, tp: TopicPartition) -> tuple[int, int]:
    """High watermark and last stable offset."""

    def look(broker: Broker) -> tuple[int, int]:
        log = broker.partitions.get(tp).log
        return log.high_watermark, log.last_stable_offset

    return cluster.on(node_id, look)


def test_89_to_91_coordinators_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    values = [f"value {number}" for number in range(300)]
    with LoopbackCluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.start()
        bootstrap = bootstrap_of(cluster)
        for topic in (SOURCE, TARGET):
            assert cluster.create_topic(1, topic, partitions=PARTITIONS, replicas=3) == 0
        produce(bootstrap, SOURCE, values[:150], PARTITIONS)
        copier = Copier(bootstrap, SOURCE, TARGET, PARTITIONS)
        copier.start()
        wait_until(lambda: copier.committed_count > 3, "the copier copies", 30)

        number = partition_for(copier.group, 3)
        killed = leader_of(cluster, CONSUMER_OFFSETS, number)
        before = committed(bootstrap, copier.group, SOURCE, PARTITIONS)
        cluster.kill(killed)
        produce(bootstrap, SOURCE, values[150:], PARTITIONS)

        def is_copied(offsets: Callable[[], list[int]]) -> bool:
            return offsets() == [100, 100, 100]

        wait_until(
            lambda: is_copied(lambda: committed(bootstrap, copier.group, SOURCE, PARTITIONS)),
            "everything is copied",
            60,
        )
        copier.stop()

        assert leader_of(cluster, CONSUMER_OFFSETS, number) not in (killed, -1)
        after = committed(bootstrap, copier.group, SOURCE, PARTITIONS)
        assert all(earlier <= later for earlier, later in zip(before, after, strict=True))
        assert_exactly_once(read_all(bootstrap, TARGET, PARTITIONS), values)
