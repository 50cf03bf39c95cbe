"""librdkafka behind the face of transactional clients."""

from pathlib import Path
from typing import Any, Final

import confluent_kafka

from tests.compat.txn_face import LEVELS, OPEN_MS, TIMEOUT_S, Fenced, Pair, Read

_CONFLUENT_FENCED: Final = (
    confluent_kafka.KafkaError._FENCED,
    confluent_kafka.KafkaError.PRODUCER_FENCED,
    confluent_kafka.KafkaError.INVALID_PRODUCER_EPOCH,
)


class ConfluentProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,
                "linger.ms": 1,
                "log_level": 0,
            }
        )

    def _done(self, name: str, *arguments: Any) -> None:
        try:
            getattr(self._producer, name)(*arguments)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() in _CONFLUENT_FENCED:
                raise Fenced(str(error)) from error
            raise

    def init(self) -> None:
        self._done("init_transactions", TIMEOUT_S)

    def begin(self) -> None:
        self._done("begin_transaction")

    def send(self, topic: str, key: str, value: str | None, partition: int = 0) -> None:
        self._producer.produce(topic, key=key, value=value, partition=partition)

    def flush(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0}
        )
        places = [confluent_kafka.TopicPartition(topic, 0, offset)]
        metadata = consumer.consumer_group_metadata()
        consumer.close()
        self._done("send_offsets_to_transaction", places, metadata, TIMEOUT_S)

    def commit(self) -> None:
        self._done("commit_transaction", TIMEOUT_S)

    def abort(self) -> None:
        self._done("abort_transaction", TIMEOUT_S)

    def vanish(self) -> None:
        self._producer.purge()
        del self._producer


class Confluent:
    name = "confluent-kafka"

    def __init__(self, bootstrap: str, work: Path) -> None:
        self.bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = OPEN_MS) -> ConfluentProducer:
        return ConfluentProducer(self.bootstrap, transactional_id, timeout_ms)

    def _consumer(self, group: str, *, committed: bool) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "isolation.level": LEVELS[committed],
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )

    def read(self, topic: str, partition: int = 0, *, committed: bool = True) -> Read:
        consumer = self._consumer("reader", committed=committed)
        found: list[Pair] = []
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"{topic} does not end after {found}"
                error, offset = message.error(), message.offset()
                if error is None:
                    key, value = message.key(), message.value()
                    assert key is not None
                    found.append((key.decode(), None if value is None else value.decode()))
                    continue
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                assert offset is not None
                return Read(found, offset)
        finally:
            consumer.close()

    def end(self, topic: str, *, committed: bool) -> int:
        consumer = self._consumer("reader", committed=committed)
        try:
            place = confluent_kafka.TopicPartition(topic, 0)
            return int(consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)[1])
        finally:
            consumer.close()

    def committed_offset(self, group: str, topic: str) -> int:
        consumer = self._consumer(group, committed=True)
        try:
            places = [confluent_kafka.TopicPartition(topic, 0)]
            (found,) = consumer.committed(places, TIMEOUT_S)
            return max(int(found.offset), -1)
        finally:
            consumer.close()

    def close(self) -> None:
        pass
