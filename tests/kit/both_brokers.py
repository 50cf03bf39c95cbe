"""Apache Kafka or a broker of ours, for tests that say the same to both."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.errors import UnknownTopicOrPartition
from tests.kit.broker import BrokerProcess, wait_until

KAFKA: Final = "kafka"
# Parameters of a fixture that passes each of them to `running_broker`.
BOTH_BROKERS: Final = [
    pytest.param(
        KAFKA,
        marks=[
            pytest.mark.kafka,
            pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
        ],
    ),
    "ledgerstone",
]


@contextmanager
def running_broker(kind: str, directory: Path) -> Iterator[BrokerProcess | KafkaBroker]:
    if kind != KAFKA:
        with BrokerProcess(directory) as ours:
            yield ours
        return
    kafka = KafkaBroker(jars=fetch_jars(), work=directory / "kafka")
    kafka.format()
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.kill()


def create_topic_and_wait(client: Client, topic: NewTopic) -> None:
    """Kafka's controller answers before its broker has heard of the topic. Whoever asks the broker
    at once, on a busy machine, is told that there is none."""

    def is_known() -> bool:
        try:
            return len(client.topic(topic.name).partitions) == topic.partitions
        except UnknownTopicOrPartition:
            return False

    create_topic(client, topic)
    wait_until(is_known, f"the broker knows topic {topic.name}")
