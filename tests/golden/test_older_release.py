"""A directory that a release before the metadata quorum wrote. See before_quorum/PROVENANCE.md."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ledgerstone.server.movable_clock import MovableClock
from ledgerstone.system import SystemClock
from ledgerstone.testing.broker import LedgerstoneBroker

GOLDEN = Path(__file__).parent / "before_quorum" / "log-dir"
WRITTEN_MS = 1_794_913_124_000  # 2026-11-17T10:58:44Z
TOPIC = TopicPartition("orders", 0)
RECORDS = [
    *((f"k{number % 5}".encode(), f"v{number}".encode()) for number in range(20)),
    (b"k0", None),
    (b"txn", b"committed"),
]


class ClockOfThen:
    """Starts when the directory was written: later on it is compacted, and its offsets expire."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self._started_ms = self._real.monotonic_ms()

    def now_ms(self) -> int:
        return WRITTEN_MS + self._real.monotonic_ms() - self._started_ms

    def monotonic_ms(self) -> int:
        return self._real.monotonic_ms()


@pytest.fixture(params=["stopped cleanly", "died"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LedgerstoneBroker]:
    directory = tmp_path / "data"
    shutil.copytree(GOLDEN, directory)
    if request.param == "died":
        (directory / ".kafka_cleanshutdown").unlink()
        (directory / "recovery-point-offset-checkpoint").unlink()
    broker = LedgerstoneBroker(directory)
    broker.clock.source = MovableClock(ClockOfThen())
    with broker:
        yield broker


def consumer_of(broker: LedgerstoneBroker) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def read_all(broker: LedgerstoneBroker) -> list[tuple[bytes | None, bytes | None]]:
    consumer = consumer_of(broker)
    consumer.assign([TopicPartition(TOPIC.topic, TOPIC.partition, 0)])
    found = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        found.append((message.key(), message.value()))
    consumer.close()
    return found


def test_records_topics_and_offsets_are_there(broker: LedgerstoneBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = admin.list_topics(timeout=10).topics
    consumer = consumer_of(broker)
    (committed,) = consumer.committed([TOPIC], timeout=10)
    consumer.close()

    assert "orders" in topics
    assert "gone" not in topics
    assert committed.offset == 7
    assert read_all(broker) == RECORDS


def test_it_goes_on_and_starts_again(broker: LedgerstoneBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", key="k1", value="later", timestamp=broker.clock.now_ms)
    producer.commit_transaction(10)

    broker.stop()
    broker.start()

    assert read_all(broker) == [*RECORDS, (b"k1", b"later")]
    assert (broker.directory / "__cluster_metadata-0" / "quorum-state").exists()
