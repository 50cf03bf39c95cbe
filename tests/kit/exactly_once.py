"""Read, process, write in transactions, on librdkafka: what a group reads comes out exactly once.

A worker copies one topic into another. Its positions are committed in the transaction of its
output, so whatever fails, the output has every value once and the group stands behind the last."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

TIMEOUT_S: Final = 30.0
# A coordinator's successor answers within seconds.
_HANGS_AFTER_S: Final = 12.0
_BATCH: Final = 10
# A client forgets a broker that is gone, and tries again, sooner than by default.
_QUICK: Final = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 500,
    "log_level": 0,
}


def produce(bootstrap: str, topic: str, values: Sequence[str], partitions: int) -> None:
    """Acknowledged by every replica in sync. A multiple of the partitions, so that what is produced
    in parts lies as if it had been produced at once."""
    assert len(values) % partitions == 0
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, **_QUICK}
    )
    for number, value in enumerate(values):
        producer.produce(topic, value=value, partition=number % partitions)
    assert producer.flush(TIMEOUT_S) == 0


def read_all(
    bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed"
) -> list[list[str]]:
    """Values of each partition, in order, up to its end or its last stable offset."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **_QUICK,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in range(partitions)])
    values: list[list[str]] = [[] for _ in range(partitions)]
    ends: set[int] = set()
    give_up_s = time.monotonic() + TIMEOUT_S
    while len(ends) < partitions:
        assert time.monotonic() < give_up_s, f"no end of {topic} was reached"
        message = consumer.poll(1.0)
        if message is None:
            continue
        partition, error = message.partition(), message.error()
        assert partition is not None
        if error is None:
            ends.discard(partition)
            values[partition].append((message.value() or b"").decode())
        elif error.code() == KafkaError._PARTITION_EOF:
            ends.add(partition)
    consumer.close()
    return values


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, **_QUICK}
    )
    places = [confluent_kafka.TopicPartition(topic, each) for each in range(partitions)]
    found = consumer.committed(places, TIMEOUT_S)
    consumer.close()
    return [each.offset for each in found]


@dataclass
class Copier:
    """A thread that copies until it is stopped. A transaction in ten is aborted on purpose."""

    bootstrap: str
    source: str
    target: str
    partitions: int
    group: str = "copiers"
    transactional_id: str = "copier"
    committed_count: int = 0
    aborted_count: int = 0
    failures: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _fault: BaseException | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * TIMEOUT_S)
            assert not self._thread.is_alive(), "the copier hangs"
        if self._fault is not None:
            raise self._fault

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._live()
                except KafkaException as error:
                    # This client is of no use any more; the next one fences it.
                    self.failures.append(str(error))
        except BaseException as error:  # noqa: BLE001 - told by `stop`
            self._fault = error

    def _live(self) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": 20_000,
                **_QUICK,
            }
        )
        producer.init_transactions(TIMEOUT_S)
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                **_QUICK,
            }
        )
        consumer.subscribe([self.source])
        try:
            while not self._stop.is_set():
                messages = consumer.consume(_BATCH, 0.2)
                good = [each for each in messages if each.error() is None]
                if good and not self._copy(producer, consumer, good):
                    # Positions are ahead of what is committed: the next consumer begins there.
                    return
        finally:
            consumer.close()

    def _copy(
        self,
        producer: confluent_kafka.Producer,
        consumer: confluent_kafka.Consumer,
        messages: Sequence[confluent_kafka.Message],
    ) -> bool:
        """True if it was committed."""
        producer.begin_transaction()
        is_meant = (self.committed_count + self.aborted_count) % 10 != 9
        try:
            for each in messages:
                partition = each.partition()
                assert partition is not None
                value = (each.value() or b"").decode()
                text = value if is_meant else f"aborted {value}"
                producer.produce(self.target, value=text, partition=partition)
            places = consumer.position(consumer.assignment())
            known = [each for each in places if each.offset >= 0]
            self._send_offsets(producer, known, consumer.consumer_group_metadata())
            if is_meant:
                self._commit(producer)
                self.committed_count += 1
                return True
        except KafkaException as error:
            fault: KafkaError = error.args[0]
            self.failures.append(str(fault))
            if not fault.txn_requires_abort():
                raise
        self.aborted_count += 1
        self._abort(producer)
        return False

    def _send_offsets(
        self,
        producer: confluent_kafka.Producer,
        places: list[confluent_kafka.TopicPartition],
        group: object,
    ) -> None:
        """librdkafka keeps no time here: a group coordinator that metadata no longer lists is asked
        for ever (confluentinc/librdkafka#5511). A producer that hangs is left to its thread, and
        its successor fences it."""
        faults: list[KafkaException] = []

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(places, group, TIMEOUT_S)
            except KafkaException as error:
                faults.append(error)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        sender.join(_HANGS_AFTER_S)
        if sender.is_alive():
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "sending offsets hangs"))
        if faults:
            raise faults[0]

    def _commit(self, producer: confluent_kafka.Producer) -> None:
        self._retried(producer.commit_transaction)

    def _abort(self, producer: confluent_kafka.Producer) -> None:
        self._retried(producer.abort_transaction)

    def _retried(self, call: Callable[[float], object]) -> None:
        while True:
            try:
                call(TIMEOUT_S)
                return
            except KafkaException as error:
                fault: KafkaError = error.args[0]
                if not fault.retriable() or self._stop.is_set():
                    raise
                self.failures.append(str(fault))


def assert_exactly_once(found: Sequence[Sequence[str]], values: Sequence[str]) -> None:
    """Each value once, in the partition and the order in which it was read."""
    partitions = len(found)
    counts = Counter(value for partition in found for value in partition)
    missing = [value for value in values if not counts[value]]
    repeated = {value: count for value, count in counts.items() if count > 1}
    strange = sorted(set(counts) - set(values))
    assert (missing, repeated, strange) == ([], {}, [])
    for number, partition in enumerate(found):
        assert list(partition) == list(values[number::partitions])
