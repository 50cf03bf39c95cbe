"""Scenario 100 on real processes: the same story told to Apache Kafka and to us.

A replica has a value and goes away. The key is deleted, and the tombstone goes when its time has
come. The replica comes back and leads. Kafka shows the value again; we do not.
"""

import shutil
import time
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from golden.cluster_plan import BROKER, COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersTopicPartition,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest
from tests.compat.mixed import WITHOUT_NEW_GROUPS
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]

STAYS: Final = 1
AWAY: Final = 3
TOPIC: Final = "t"
KEY: Final = b"k"
SETTINGS: Final = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "log.cleaner.backoff.ms": "200",
}
# Every append rolls what is older than a moment, every pass is due, every tombstone goes at once.
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": "0.0001",
    "max.compaction.lag.ms": "100",
}
# Shorter than the absence. A longer one keeps the tombstone until the replica is back.
OUR_CONFIGS: Final = {"ledgerstone.tombstone.replica.hold.max.ms": "2000"}


def _cluster(kind: str, work: Path) -> Cluster:
    nodes = [
        PlannedNode(node_id=STAYS, roles=COMBINED, port=free_port(), controller_port=free_port()),
        PlannedNode(node_id=AWAY, roles=BROKER, port=free_port(), controller_port=0),
    ]
    cluster = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=SETTINGS, features=WITHOUT_NEW_GROUPS),
        work=work,
        jars=fetch_jars(),
        kinds={STAYS: kind, AWAY: kind},
    )
    cluster.format()
    return cluster


def _create(cluster: Cluster, configs: dict[str, str]) -> None:
    """The replica that goes away is the preferred leader."""
    wanted = CreateTopicsRequestTopic(
        name=TOPIC,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreateTopicsAssignment(partition_index=0, broker_ids=[AWAY, STAYS])],
        configs=[CreateTopicsRequestConfig(*each) for each in configs.items()],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    said: Any = ask(cluster[STAYS].planned.bootstrap, request, 7)
    assert said.topics[0].error_code == ErrorCode.NONE, said.topics[0].error_message


def _state(cluster: Cluster) -> tuple[int, set[int]]:
    """Leader and ISR."""
    said: Any = ask(cluster[STAYS].planned.bootstrap, MetadataRequest(topics=None), 12)
    for topic in said.topics:
        if topic.name == TOPIC:
            (found,) = topic.partitions
            return found.leader_id, set(found.isr_nodes)
    return -1, set()


def _write(cluster: Cluster, key: bytes, value: bytes | None) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.plan.bootstrap, "acks": "all", "log_level": 0}
    )
    failures: list[object] = []
    producer.produce(
        TOPIC, value, key, partition=0, on_delivery=lambda error, _: failures.append(error)
    )
    assert producer.flush(60) == 0
    assert failures == [None]


def _records(cluster: Cluster) -> list[tuple[bytes, bytes | None]]:
    """As a new consumer reads them, from the log's start to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.plan.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: list[tuple[bytes, bytes | None]] = []
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append((message.key() or b"", message.value()))
    finally:
        consumer.close()
    return found


def _lead(cluster: Cluster, node_id: int) -> None:
    def leads() -> bool:
        request = ElectLeadersRequest(
            topic_partitions=[ElectLeadersTopicPartition(topic=TOPIC, partitions=[0])],
            timeout_ms=5_000,
        )
        ask(cluster[STAYS].planned.bootstrap, request, 2)
        return _state(cluster)[0] == node_id

    wait_until(leads, f"node {node_id} leads", 60)


def _delete_and_forget(cluster: Cluster) -> None:
    """Deletes the key, and writes others until its tombstone is gone."""
    _write(cluster, KEY, None)
    deadline, number = time.monotonic() + 120, 0
    while KEY in [key for key, _ in _records(cluster)]:
        assert time.monotonic() < deadline, "the tombstone stays"
        number += 1
        _write(cluster, b"other", b"%d" % number)


def _value_after_an_absence(cluster: Cluster, configs: dict[str, str]) -> bytes | None:
    """What the key has once the replica that was away leads."""
    with cluster:
        cluster.start(STAYS)
        cluster.start(AWAY)
        _create(cluster, configs)
        wait_until(lambda: _state(cluster)[1] == {STAYS, AWAY}, "both are in sync", 60)
        _write(cluster, KEY, b"v")
        cluster[AWAY].kill()
        wait_until(lambda: _state(cluster) == (STAYS, {STAYS}), "one is left", 60)
        _delete_and_forget(cluster)

        cluster.start(AWAY)
        wait_until(lambda: _state(cluster)[1] == {STAYS, AWAY}, "both are in sync", 60)
        _lead(cluster, AWAY)

        records = _records(cluster)
    assert b"other" in dict(records)
    return dict(records).get(KEY)


def test_apache_kafka_brings_the_key_back(tmp_path: Path) -> None:
    assert _value_after_an_absence(_cluster(KAFKA, tmp_path), CONFIGS) == b"v"


def test_we_do_not(tmp_path: Path) -> None:
    cluster = _cluster(LEDGERSTONE, tmp_path)

    assert _value_after_an_absence(cluster, {**CONFIGS, **OUR_CONFIGS}) is None

    assert "log rebuilt partition=t-0" in cluster[AWAY].log_text
