"""kafka-python behind the face of transactional clients."""

import warnings
from pathlib import Path
from typing import Any

from tests.compat.txn_face import LEVELS, OPEN_MS, TIMEOUT_S, Fenced, Pair, Read
from tests.kit import kafka_python

with warnings.catch_warnings():
    # It reads its schemas with a deprecated function; the suite treats warnings as errors.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.errors import KafkaError as KafkaPythonError
    from kafka.errors import ProducerFencedError


class KafkaPythonProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = kafka_python.producer(
            bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=int(TIMEOUT_S * 1000),
        )

    def _done(self, name: str, *arguments: Any) -> None:
        try:
            getattr(self._producer, name)(*arguments)
        except ProducerFencedError as error:
            raise Fenced(str(error)) from error
        except KafkaPythonError as error:
            if "fenced" in str(error).lower():
                raise Fenced(str(error)) from error
            raise

    def init(self) -> None:
        self._done("init_transactions")

    def begin(self) -> None:
        self._done("begin_transaction")

    def send(self, topic: str, key: str, value: str | None, partition: int = 0) -> None:
        encoded = None if value is None else value.encode()
        self._producer.send(topic, key=key.encode(), value=encoded, partition=partition)

    def flush(self) -> None:
        self._done("flush", TIMEOUT_S)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        place = kafka.TopicPartition(topic, 0)
        offsets = {place: kafka.structs.OffsetAndMetadata(offset, "", -1)}
        self._done("send_offsets_to_transaction", offsets, group)

    def commit(self) -> None:
        self._done("commit_transaction")

    def abort(self) -> None:
        self._done("abort_transaction")

    def vanish(self) -> None:
        self._producer.close(timeout=0)


class KafkaPython:
    name = "kafka-python"

    def __init__(self, bootstrap: str, work: Path) -> None:
        self.bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = OPEN_MS) -> KafkaPythonProducer:
        return KafkaPythonProducer(self.bootstrap, transactional_id, timeout_ms)

    def read(self, topic: str, partition: int = 0, *, committed: bool = True) -> Read:
        place = kafka.TopicPartition(topic, partition)
        with kafka_python.consumer(
            self.bootstrap, isolation_level=LEVELS[committed], consumer_timeout_ms=500
        ) as consumer:
            consumer.assign([place])
            consumer.seek(place, 0)
            end = consumer.end_offsets([place])[place]
            found: list[Pair] = []
            rounds = 0
            while consumer.position(place) < end:
                rounds += 1
                assert rounds < 100, f"at {consumer.position(place)} of {end}"
                for records in consumer.poll(timeout_ms=500).values():
                    found += [
                        (each.key.decode(), None if each.value is None else each.value.decode())
                        for each in records
                    ]
            return Read(found, consumer.position(place))

    def end(self, topic: str, *, committed: bool) -> int:
        place = kafka.TopicPartition(topic, 0)
        with kafka_python.consumer(self.bootstrap, isolation_level=LEVELS[committed]) as consumer:
            return int(consumer.end_offsets([place])[place])

    def committed_offset(self, group: str, topic: str) -> int:
        with kafka_python.consumer(self.bootstrap, group_id=group) as consumer:
            found = consumer.committed(kafka.TopicPartition(topic, 0))
            return -1 if found is None else int(found)

    def close(self) -> None:
        pass
