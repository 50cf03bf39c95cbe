"""Settings that a Kafka controller has taken and we refuse: they are told, and stop nobody."""

from pathlib import Path

import pytest

from ledgerstone.metadata.image import MetadataImage, ResourceType
from ledgerstone.protocol.messages.metadata_records import ConfigRecord
from ledgerstone.server.broker import Broker
from ledgerstone.types import TopicPartition
from tests.kit.loopback_cluster import BOTH, LoopbackCluster

TP = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max.connections.per.ip.overrides", "localhost:5"),
        ("log.cleaner.threads", "many"),
        ("listener.name.plaintext.max.connections", "many"),
        ("leader.replication.throttled.rate", "fast"),
    ],
)
def test_setting_of_brokers_that_is_refused_here_stops_no_broker(
    tmp_path: Path, key: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    def commit(broker: Broker) -> None:
        broker.controller_link.write([ConfigRecord(ResourceType.BROKER, "", key, value)])

    def is_there(image: MetadataImage) -> bool:
        return "t" in image.topics

    with LoopbackCluster(tmp_path, roles=(BOTH,)) as cluster:
        cluster.start()
        cluster.on(1, commit)
        assert cluster.create_topic(1, "t") == 0
        cluster.wait_for("the topic is there", is_there)
        cluster.stop()
        cluster.start()

        assert cluster.on(1, lambda broker: broker.partitions.get(TP).is_leader)
    assert f"setting not taken broker= key={key}" in caplog.messages
