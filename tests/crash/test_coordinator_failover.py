"""Coordinators lost while groups and transactions use them: scenarios 89 to 93 and 99.

The first test runs by default: three brokers in this process, with real connections and disks. The
others are processes that are killed, paused and restarted."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest
from tests.compat.wire import ask
from tests.crash.failover import NODES, cluster_of_three
from tests.kit.broker import wait_until
from tests.kit.exactly_once import (
    Copier,
    assert_exactly_once,
    committed,
    produce,
    read_all,
)
from tests.kit.loopback_cluster import LoopbackCluster
from tests.kit.nodes import LEDGERSTONE, Cluster

SOURCE, TARGET = "source", "target"
PARTITIONS: Final = 3
# As many partitions as make every broker the coordinator of something.
SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
}


def coordinator(answer: ApiMessage) -> int | None:
    assert isinstance(answer, FindCoordinatorResponse)
    (only,) = answer.coordinators
    return None if only.error_code else only.node_id


def values_of(count: int) -> list[str]:
    return [f"value {number}" for number in range(count)]


def test_89_to_91_a_killed_coordinator_of_group_and_transaction_loses_nothing(
    tmp_path: Path,
) -> None:
    values = values_of(120)
    with LoopbackCluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.start()
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in cluster.client_ports.values())
        for topic in (SOURCE, TARGET):
            assert cluster.create_topic(1, topic, partitions=PARTITIONS, replicas=3) == 0

        def found(key_type: int, key: str) -> int:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            said = wait_until(
                lambda: coordinator(cluster.ask(2, request)), f"{key} has a coordinator", 20
            )
            assert said is not None
            return said

        killed = found(0, "copiers")
        found(1, "any")
        transactional_id = next(
            each for each in (f"copier-{n}" for n in range(100)) if found(1, each) == killed
        )
        produce(bootstrap, SOURCE, values[:60], PARTITIONS)
        copier = Copier(bootstrap, SOURCE, TARGET, PARTITIONS, transactional_id=transactional_id)
        copier.start()
        wait_until(lambda: copier.committed_count >= 2, "the copier copies", 30)
        before = committed(bootstrap, copier.group, SOURCE, PARTITIONS)

        cluster.kill(killed)

        produce(bootstrap, SOURCE, values[60:], PARTITIONS)
        offsets = partial(committed, bootstrap, copier.group, SOURCE, PARTITIONS)
        wait_until(lambda: offsets() == [40, 40, 40], "everything is copied", 120)
        copier.stop()
        assert all(early <= late for early, late in zip(before, offsets(), strict=True))
        survivor = next(iter(cluster.nodes))
        group_state = cluster.image(survivor).partition(
            CONSUMER_OFFSETS, partition_for(copier.group, 3)
        )
        assert group_state is not None
        assert group_state.leader not in (killed, -1)
        assert_exactly_once(read_all(bootstrap, TARGET, PARTITIONS), values)


# -- processes ------------------------------------------------------------------------------------


class Processes:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.bootstrap = ",".join(cluster[each].planned.bootstrap for each in NODES)

    def ask(self, request: ApiMessage, version: int) -> Any:
        """Any node that runs and answers."""
        for node in self.cluster.running:
            try:
                return ask(node.planned.bootstrap, request, version, timeout_s=5)
            except OSError:
                continue
        raise AssertionError("no node answers")

    def create(self, *topics: str) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequestTopic(name=each, num_partitions=PARTITIONS, replication_factor=3)
                for each in topics
            ],
            timeout_ms=20_000,
        )
        said = self.ask(request, 7)
        assert [each.error_code for each in said.topics] == [0] * len(topics)

    def leader(self, topic: str, number: int) -> int:
        said = self.ask(MetadataRequest(topics=None), 12)
        leaders: dict[int, int] = {
            part.partition_index: part.leader_id
            for each in said.topics
            if each.name == topic
            for part in each.partitions
        }
        return leaders[number]

    def is_moved(self, topic: str, gone: int) -> bool:
        return all(self.leader(topic, each) not in (gone, -1) for each in range(PARTITIONS))

    def is_whole(self) -> bool:
        said = self.ask(MetadataRequest(topics=None), 12)
        return len(said.brokers) == len(NODES) and all(
            len(part.isr_nodes) == len(NODES) for each in said.topics for part in each.partitions
        )

    def coordinator_of(self, copier: Copier, kind: str) -> int:
        key = copier.group if kind == CONSUMER_OFFSETS else copier.transactional_id
        return self.leader(kind, partition_for(key, 3))


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with cluster_of_three(LEDGERSTONE, tmp_path, settings=SETTINGS) as cluster:
        cluster.start()
        made = Processes(cluster)
        made.create(SOURCE, TARGET)
        yield made


@pytest.mark.slow
def test_89_to_93_coordinators_killed_and_restarted_again_and_again(processes: Processes) -> None:
    rounds, each_round = 6, 150
    values = values_of((rounds + 1) * each_round)
    copier = Copier(processes.bootstrap, SOURCE, TARGET, PARTITIONS)
    produce(processes.bootstrap, SOURCE, values[:each_round], PARTITIONS)
    copier.start()
    wait_until(lambda: copier.committed_count > 3, "the copier copies", 60)

    for number in range(1, rounds + 1):
        kind = (CONSUMER_OFFSETS, TRANSACTION_STATE)[number % 2]
        killed = processes.coordinator_of(copier, kind)
        count = copier.committed_count
        processes.cluster[killed].kill()
        start = number * each_round
        produce(processes.bootstrap, SOURCE, values[start : start + each_round], PARTITIONS)
        wait_for_more(copier, count)
        processes.cluster.start(killed)
        wait_until(processes.is_whole, "every replica is in sync", 90)

    assert_copied(processes, copier, values)
    # The view of transactions is the same on every replica that may lead.
    views = []
    for node_id in NODES:
        others = [each for each in NODES if each != node_id]
        processes.cluster.stop(others[0])
        wait_until(partial(processes.is_moved, TARGET, others[0]), "it moved", 60)
        views.append(read_all(processes.bootstrap, TARGET, PARTITIONS))
        processes.cluster.start(others[0])
        wait_until(processes.is_whole, "every replica is in sync", 90)
    assert all(each == views[0] for each in views)


@pytest.mark.slow
def test_99_a_coordinator_that_slept_is_not_believed(processes: Processes) -> None:
    values = values_of(420)
    copier = Copier(processes.bootstrap, SOURCE, TARGET, PARTITIONS)
    produce(processes.bootstrap, SOURCE, values[:210], PARTITIONS)
    copier.start()
    wait_until(lambda: copier.committed_count > 3, "the copier copies", 60)

    for start, kind in ((210, CONSUMER_OFFSETS), (315, TRANSACTION_STATE)):
        paused = processes.coordinator_of(copier, kind)
        count = copier.committed_count
        node = processes.cluster[paused]
        node.pause()
        produce(processes.bootstrap, SOURCE, values[start : start + 105], PARTITIONS)
        wait_for_more(copier, count)
        node.resume()
        wait_until(processes.is_whole, "every replica is in sync", 120)

    assert_copied(processes, copier, values)


@pytest.mark.slow
def test_89_a_rolling_restart_disturbs_no_transaction(processes: Processes) -> None:
    values = values_of(630)
    copier = Copier(processes.bootstrap, SOURCE, TARGET, PARTITIONS)
    copier.start()
    for number, node_id in enumerate(NODES):
        processes.cluster.stop(node_id)
        start = number * 210
        produce(processes.bootstrap, SOURCE, values[start : start + 210], PARTITIONS)
        processes.cluster.start(node_id)
        wait_until(processes.is_whole, "every replica is in sync", 90)

    assert_copied(processes, copier, values)


def wait_for_more(copier: Copier, count: int) -> None:
    wait_until(lambda: copier.committed_count > count + 3, "the copier goes on", 120)


def assert_copied(processes: Processes, copier: Copier, values: list[str]) -> None:
    expected = [len(values[each::PARTITIONS]) for each in range(PARTITIONS)]
    offsets = partial(committed, processes.bootstrap, copier.group, SOURCE, PARTITIONS)
    wait_until(lambda: offsets() == expected, "everything is copied", 120)
    copier.stop()
    assert copier.aborted_count > 0
    assert_exactly_once(read_all(processes.bootstrap, TARGET, PARTITIONS), values)
