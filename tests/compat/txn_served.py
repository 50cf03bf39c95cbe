"""A broker that a test about transactions runs on: ours, or Apache Kafka with the same settings."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from tests.compat.confluent_admin import AdminClient, NewTopic
from tests.kit.broker import FAST_GROUPS, BrokerProcess

NEEDS_JAVA: Final = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]
# Which of the two: for `params` of a fixture that passes `request.param` to `serving`.
OURS: Final = "ours"
BOTH: Final = [OURS, pytest.param("kafka", marks=NEEDS_JAVA)]
SETTINGS: Final = {
    **FAST_GROUPS,
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
}


class Served(Protocol):
    @property
    def bootstrap(self) -> str: ...

    @property
    def data(self) -> Path: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


@contextmanager
def serving(which: str, work: Path, settings: Mapping[str, str] = SETTINGS) -> Iterator[Served]:
    """Ends it whatever happens; what ours logged as an error fails the test."""
    if which == OURS:
        with BrokerProcess(work, dict(settings)) as process:
            yield process
            assert " ERROR " not in process.log_text, process.log_text
        return
    kafka = KafkaBroker(jars=fetch_jars(), work=work / "kafka", settings=settings)
    kafka.format()
    kafka.start()
    try:
        yield kafka
    finally:
        if kafka.process is not None:
            kafka.kill()


def make_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    asked = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
    admin.create_topics([asked])[name].result(20)
    return name
