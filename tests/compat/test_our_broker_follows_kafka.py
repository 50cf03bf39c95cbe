"""A broker of ours follows a leader of Apache Kafka's: it copies the log and joins the ISR.

Byte for byte, through a restart of each side, a log that was cut at the start, and a deleted topic.
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

THEIRS: Final = 1
OURS: Final = 5
SETTINGS: Final = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    nodes = [
        PlannedNode(node_id=THEIRS, roles=COMBINED, port=free_port(), controller_port=free_port()),
        PlannedNode(node_id=OURS, roles=BROKER, port=free_port(), controller_port=0),
    ]
    found = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=SETTINGS, features=WITHOUT_NEW_GROUPS),
        work=tmp_path_factory.mktemp("follows"),
        jars=fetch_jars(),
        kinds={THEIRS: KAFKA, OURS: LEDGERSTONE},
    )
    found.format()
    with found:
        found.start()
        yield found


def _create(cluster: Cluster, topic: str, replicas: tuple[int, ...] = (THEIRS, OURS)) -> None:
    """One partition, led by Kafka's broker, followed by ours."""
    assigned = CreateTopicsAssignment(partition_index=0, broker_ids=list(replicas))
    wanted = CreateTopicsRequestTopic(
        name=topic, num_partitions=-1, replication_factor=-1, assignments=[assigned]
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    said: Any = ask(cluster[THEIRS].planned.bootstrap, request, 7)
    assert said.topics[0].error_code == ErrorCode.NONE, said


def _isr(cluster: Cluster, topic: str) -> set[int]:
    said: Any = ask(cluster[THEIRS].planned.bootstrap, MetadataRequest(topics=None), 12)
    found = next(each for each in said.topics if each.name == topic)
    return set(found.partitions[0].isr_nodes)


def _produce(cluster: Cluster, topic: str, count: int) -> None:
    """In many batches; acks=all: delivered once our broker has it."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": cluster[THEIRS].planned.bootstrap,
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


def _wait_in_sync(cluster: Cluster, topic: str) -> None:
    wait_until(lambda: _isr(cluster, topic) == {THEIRS, OURS}, f"both are in sync on {topic}", 30)


def _logs(cluster: Cluster, topic: str) -> tuple[dict[int, bytes], dict[int, bytes]]:
    theirs, ours = (dict(batches(cluster[each].data / f"{topic}-0")) for each in (THEIRS, OURS))
    return theirs, ours


def _wait_equal(cluster: Cluster, topic: str) -> dict[int, bytes]:
    def are_equal() -> bool:
        theirs, ours = _logs(cluster, topic)
        return bool(theirs) and theirs == ours

    wait_until(are_equal, f"both have the same batches of {topic}", 30)
    return _logs(cluster, topic)[1]


def test_copies_the_log_and_counts_for_acks_all(cluster: Cluster) -> None:
    _create(cluster, "copied")
    _produce(cluster, "copied", 5_000)

    assert _isr(cluster, "copied") == {THEIRS, OURS}
    assert len(_wait_equal(cluster, "copied")) > 10


def test_transactions_are_copied_with_their_markers(cluster: Cluster) -> None:
    # Kafka's broker coordinates.
    _create(cluster, "__transaction_state", (THEIRS,))
    _create(cluster, "transactional")
    producer = Producer(
        {
            "bootstrap.servers": cluster[THEIRS].planned.bootstrap,
            "log_level": 0,
            "transactional.id": "follows",
        }
    )
    producer.init_transactions(60)
    for ends in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("transactional", b"value", partition=0)
        producer.flush(30)
        ends(30)

    # Kafka writes a marker after it has answered.
    wait_until(lambda: len(_logs(cluster, "transactional")[0]) == 4, "both are marked", 30)
    _wait_equal(cluster, "transactional")


def test_log_cut_at_its_start_is_cut_here(cluster: Cluster) -> None:
    _create(cluster, "cut")
    _produce(cluster, "cut", 1_000)
    admin = AdminClient({"bootstrap.servers": cluster[THEIRS].planned.bootstrap, "log_level": 0})
    # Answered once every replica in sync says that its log begins there.
    done = admin.delete_records([TopicPartition("cut", 0, 500)], operation_timeout=20)
    assert [each.result(30).low_watermark for each in done.values()] == [500]


def test_comes_back_with_what_it_missed(cluster: Cluster) -> None:
    _create(cluster, "missed")
    _produce(cluster, "missed", 100)
    cluster[OURS].kill()
    wait_until(lambda: _isr(cluster, "missed") == {THEIRS}, "our broker is out of the ISR", 30)
    _produce(cluster, "missed", 3_000)
    cluster.start(OURS)

    _wait_in_sync(cluster, "missed")
    _produce(cluster, "missed", 100)
    _wait_equal(cluster, "missed")


def test_both_are_killed_and_agree_again(cluster: Cluster) -> None:
    _create(cluster, "killed")
    _produce(cluster, "killed", 100)
    cluster[OURS].kill()
    # Otherwise our broker would lead next.
    wait_until(lambda: _isr(cluster, "killed") == {THEIRS}, "our broker is out of the ISR", 30)
    _produce(cluster, "killed", 1_000)
    cluster[THEIRS].kill()
    cluster.start()

    _wait_in_sync(cluster, "killed")
    _produce(cluster, "killed", 100)
    _wait_equal(cluster, "killed")


def test_deleted_topic_is_let_go(cluster: Cluster) -> None:
    _create(cluster, "deleted")
    _produce(cluster, "deleted", 10)
    admin = AdminClient({"bootstrap.servers": cluster[THEIRS].planned.bootstrap, "log_level": 0})
    for done in admin.delete_topics(["deleted"]).values():
        done.result(30)
    directory = cluster[OURS].data / "deleted-0"
    wait_until(lambda: not directory.exists(), "its directory is gone", 30)

    _create(cluster, "deleted")
    _produce(cluster, "deleted", 20)
    _wait_equal(cluster, "deleted")
