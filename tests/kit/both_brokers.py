"""Apache Kafka or a broker of ours, for tests that say the same to both."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from tests.kit.broker import BrokerProcess

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
