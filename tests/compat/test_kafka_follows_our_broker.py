"""A broker of Apache Kafka's follows a leader of ours: it copies the log and joins the ISR.

Byte for byte; it leaves the ISR when it is paused and when it is killed, and comes back by itself.
"""

import shutil
from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from golden.cluster_plan import BROKER, COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
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
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster, batches

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]

OURS: Final = 1
THEIRS: Final = 5
SETTINGS: Final = {
    # Longer than the lag that a leader allows: a paused follower leaves by the leader's own rule.
    "broker.session.timeout.ms": "12000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    nodes = [
        PlannedNode(node_id=OURS, roles=COMBINED, port=free_port(), controller_port=free_port()),
        PlannedNode(node_id=THEIRS, roles=BROKER, port=free_port(), controller_port=0),
    ]
    found = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=SETTINGS, features=WITHOUT_NEW_GROUPS),
        work=tmp_path_factory.mktemp("leads"),
        jars=fetch_jars(),
        kinds={OURS: LEDGERSTONE, THEIRS: KAFKA},
    )
    found.format()
    with found:
        found.start(OURS)
        found.start(THEIRS)
        yield found


def _create(cluster: Cluster, topic: str) -> None:
    assigned = CreateTopicsAssignment(partition_index=0, broker_ids=[OURS, THEIRS])
    wanted = CreateTopicsRequestTopic(
        name=topic, num_partitions=-1, replication_factor=-1, assignments=[assigned]
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    said: Any = ask(cluster[OURS].planned.bootstrap, request, 7)
    assert said.topics[0].error_code == ErrorCode.NONE, said


def _state(cluster: Cluster, topic: str) -> tuple[int, set[int]]:
    """Leader and ISR."""
    said: Any = ask(cluster[OURS].planned.bootstrap, MetadataRequest(topics=None), 12)
    (found,) = next(each for each in said.topics if each.name == topic).partitions
    return found.leader_id, set(found.isr_nodes)


def _isr(cluster: Cluster, topic: str) -> set[int]:
    leader, isr = _state(cluster, topic)
    assert leader == OURS
    return isr


def _wait_for_isr(cluster: Cluster, topic: str, *members: int) -> None:
    wait_until(lambda: _isr(cluster, topic) == set(members), f"the ISR is {members}", 60)


def _produce(cluster: Cluster, topic: str, count: int) -> None:
    """In many batches; acks=all: delivered once every member of the ISR has it."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": cluster[OURS].planned.bootstrap,
        "log_level": 0,
        "acks": "all",
        "batch.num.messages": 100,
    }
    producer = Producer(settings)
    failures = []
    for number in range(count):
        producer.produce(
            topic,
            f"{topic}-{number}".encode() * 20,
            partition=0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failures == []


def _wait_equal(cluster: Cluster, topic: str) -> dict[int, bytes]:
    def logs() -> list[dict[int, bytes]]:
        return [dict(batches(cluster[each].data / f"{topic}-0")) for each in (OURS, THEIRS)]

    wait_until(lambda: bool((both := logs())[0]) and both[0] == both[1], f"{topic} is equal", 30)
    return logs()[0]


def test_copies_the_log_and_counts_for_acks_all(cluster: Cluster) -> None:
    _create(cluster, "copied")
    _produce(cluster, "copied", 5_000)

    assert _isr(cluster, "copied") == {OURS, THEIRS}
    assert len(_wait_equal(cluster, "copied")) > 10


def test_paused_follower_leaves_and_comes_back(cluster: Cluster) -> None:
    _create(cluster, "paused")
    _produce(cluster, "paused", 100)
    cluster[THEIRS].pause()
    try:
        # Waits for the paused one until the controller has agreed that it is out.
        _produce(cluster, "paused", 1_000)
        assert _isr(cluster, "paused") == {OURS}
    finally:
        cluster[THEIRS].resume()

    _wait_for_isr(cluster, "paused", OURS, THEIRS)
    _produce(cluster, "paused", 100)
    _wait_equal(cluster, "paused")


def test_killed_follower_comes_back_with_what_it_missed(cluster: Cluster) -> None:
    _create(cluster, "missed")
    _produce(cluster, "missed", 100)
    cluster[THEIRS].kill()
    _produce(cluster, "missed", 2_000)
    assert _isr(cluster, "missed") == {OURS}
    cluster.start(THEIRS)

    _wait_for_isr(cluster, "missed", OURS, THEIRS)
    _produce(cluster, "missed", 100)
    _wait_equal(cluster, "missed")


def test_delete_is_answered_once_the_follower_has_followed(cluster: Cluster) -> None:
    _create(cluster, "cut")
    _produce(cluster, "cut", 1_000)
    admin = AdminClient({"bootstrap.servers": cluster[OURS].planned.bootstrap, "log_level": 0})
    done = admin.delete_records([TopicPartition("cut", 0, 500)], operation_timeout=20)

    assert [each.result(30).low_watermark for each in done.values()] == [500]


def test_lead_goes_to_the_follower_and_comes_back(cluster: Cluster) -> None:
    """Our node is the only controller: it fences itself when it registers again."""
    _create(cluster, "moved")
    _produce(cluster, "moved", 1_000)
    cluster[OURS].kill()
    cluster.start(OURS)
    wait_until(lambda: _state(cluster, "moved") == (THEIRS, {OURS, THEIRS}), "it leads", 60)
    _produce(cluster, "moved", 1_000)

    topics = [ElectLeadersTopicPartition(topic="moved", partitions=[0])]
    said: Any = ask(
        cluster[OURS].planned.bootstrap,
        ElectLeadersRequest(election_type=0, topic_partitions=topics, timeout_ms=10_000),
        2,
    )
    assert said.error_code == ErrorCode.NONE, said
    wait_until(lambda: _state(cluster, "moved") == (OURS, {OURS, THEIRS}), "ours leads again", 60)
    _produce(cluster, "moved", 1_000)
    assert len(_wait_equal(cluster, "moved")) >= 3
