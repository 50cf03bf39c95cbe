"""Clusters of Apache Kafka's nodes and ours: three controllers, and a broker of each."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from golden.cluster_plan import BROKER, CLUSTER_ID, CONTROLLER, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.records import decode_record
from ledgerstone.metadata.replay import apply
from ledgerstone.records.batch import read_header, verify_crc
from ledgerstone.records.values import record_values
from ledgerstone.server.quorum.snapshot_reading import snapshot_records
from ledgerstone.system import OsFilesystem
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster, batches

CONTROLLERS: Final = (1, 2, 3)
KAFKA_BROKER: Final = 4
OUR_BROKER: Final = 5
KINDS: Final = {"k": KAFKA, "l": LEDGERSTONE}
# Our brokers serve no groups of these types and say so: a cluster that has them on refuses ours.
WITHOUT_NEW_GROUPS: Final = {"group.version": 0, "share.version": 0, "streams.version": 0}
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


def mixed_cluster(
    letters: str,
    work: Path,
    *,
    is_dynamic: bool = True,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Cluster:
    """`letters` says who runs the controllers 1 to 3: `kkl` is two of Kafka's and one of ours."""
    nodes = [
        PlannedNode(node_id=each, roles=CONTROLLER, port=0, controller_port=free_port())
        for each in CONTROLLERS
    ]
    nodes += [
        PlannedNode(node_id=each, roles=BROKER, port=free_port(), controller_port=0)
        for each in (KAFKA_BROKER, OUR_BROKER)
    ]
    plan = ClusterPlan(
        nodes=nodes, is_dynamic=is_dynamic, settings=settings, features=WITHOUT_NEW_GROUPS
    )
    kinds = {node_id: KINDS[each] for node_id, each in zip(CONTROLLERS, letters, strict=True)}
    kinds |= {KAFKA_BROKER: KAFKA, OUR_BROKER: LEDGERSTONE}
    cluster = Cluster(plan=plan, work=work, jars=fetch_jars(), kinds=kinds)
    cluster.format()
    return cluster


def round_trip(cluster: Cluster, topic: str, count: int = 20) -> None:
    """A real client writes to a topic and reads it again."""
    bootstrap = {"bootstrap.servers": cluster.plan.bootstrap, "log_level": 0}
    producer = Producer({**bootstrap, "enable.idempotence": True})
    values = [f"{topic}-{number}".encode() for number in range(count)]
    for each in values:
        producer.produce(topic, each, partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer({**bootstrap, "group.id": f"group-{topic}", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes | None] = []
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None, f"{len(found)} of {count} records of {topic}"
            error = message.error()
            assert error is None, error
            found.append(message.value())
    finally:
        consumer.close()
    assert found == values


def replayed(metadata: Path) -> MetadataImage:
    """What our code makes of a log, whoever wrote it."""
    image = MetadataImage(cluster_id=CLUSTER_ID)
    for _, data in batches(metadata):
        header = read_header(data)
        verify_crc(data, 0, header)
        if not header.is_control:
            values = record_values(memoryview(data))
            image = apply(image, [decode_record(each) for each in values if each]).image
    return image


def loaded(snapshot: Path) -> MetadataImage:
    file = OsFilesystem().open(str(snapshot))
    try:
        return apply(
            MetadataImage(cluster_id=CLUSTER_ID), snapshot_records(file, str(snapshot))
        ).image
    finally:
        file.close()
