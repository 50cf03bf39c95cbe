"""Four clients behind one face, so that a test about the broker is written once.

Only what all of them can say is here: produce to a partition, read from a partition, ask for
offsets. What is special to a client (groups, admin calls) is tested with that client by name.
An error the broker answered becomes a `Refused` with Kafka's code, whoever noticed it.
"""

import asyncio
import subprocess
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import aiokafka
import confluent_kafka
from aiokafka.errors import KafkaError as AioKafkaError

from tests.kit import kafka_python

with warnings.catch_warnings():
    # It reads its schemas with a deprecated function; the suite treats warnings as errors.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.codec
    from kafka.errors import KafkaError as KafkaPythonError

CODECS: Final[tuple[str, ...]] = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S: Final = 20.0

Headers = tuple[tuple[str, bytes], ...]


class Record(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Seen(NamedTuple):
    offset: int
    timestamp_ms: int
    record: Record


class Refused(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Client(Protocol):
    name: str
    codecs: tuple[str, ...]

    def __init__(self, bootstrap: str) -> None: ...

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: int = -1
    ) -> list[int]:
        """To partition 0; returns the offsets, which mean nothing with acks=0."""

    def consume(self, topic: str, count: int, *, offset: int = 0) -> list[Seen]:
        """From partition 0 with a manual assignment."""

    def end_offsets(self, topic: str) -> tuple[int, int]:
        """Beginning and end of partition 0."""

    def offset_for_time(self, topic: str, timestamp_ms: int) -> int | None:
        """The first offset at or after this time, or None."""


class Confluent:
    name = "confluent-kafka"
    codecs = CODECS

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: int = -1
    ) -> list[int]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": codec,
                "acks": acks,
                "linger.ms": 20,
                "message.max.bytes": 10_000_000,
                "message.timeout.ms": int(TIMEOUT_S * 1000),
            }
        )
        reports: list[tuple[Any, Any]] = []
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=0,
                timestamp=record.timestamp_ms or 0,
                on_delivery=lambda error, message: reports.append((error, message)),
            )
        assert producer.flush(TIMEOUT_S) == 0
        for error, _ in reports:
            if error is not None:
                raise Refused(error.code(), error.str())
        return [message.offset() for _, message in reports]

    def _consumer(self) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "never-joined",
                "enable.auto.commit": False,
            }
        )

    def consume(self, topic: str, count: int, *, offset: int = 0) -> list[Seen]:
        consumer = self._consumer()
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
            seen: list[Seen] = []
            while len(seen) < count:
                messages = consumer.consume(count - len(seen), TIMEOUT_S)
                assert messages, f"{len(seen)} of {count} records came"
                seen += [_seen_by_confluent(message) for message in messages]
            return seen
        finally:
            consumer.close()

    def end_offsets(self, topic: str) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            asked = confluent_kafka.TopicPartition(topic, 0)
            low, high = consumer.get_watermark_offsets(asked, timeout=TIMEOUT_S)
            return low, high
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp_ms: int) -> int | None:
        consumer = self._consumer()
        try:
            asked = confluent_kafka.TopicPartition(topic, 0, timestamp_ms)
            [found] = consumer.offsets_for_times([asked], timeout=TIMEOUT_S)
            return None if found.offset == confluent_kafka.OFFSET_END else found.offset
        finally:
            consumer.close()


def _seen_by_confluent(message: Any) -> Seen:
    if message.error() is not None:
        raise Refused(message.error().code(), message.error().str())
    headers = tuple((name, value) for name, value in message.headers() or ())
    record = Record(message.value(), message.key(), headers, message.timestamp()[1])
    return Seen(message.offset(), message.timestamp()[1], record)


class KafkaPython:
    name = "kafka-python"
    codecs = tuple(c for c in CODECS if c != "snappy" or kafka.codec.has_snappy())

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: int = -1
    ) -> list[int]:
        with kafka_python.producer(
            self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == -1 else acks,
            enable_idempotence=False,
            linger_ms=20,
            max_request_size=10_000_000,
        ) as producer:
            try:
                futures = [
                    producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=0,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                return [future.get(timeout=TIMEOUT_S).offset for future in futures]
            except KafkaPythonError as error:
                raise Refused(error.errno, str(error)) from error

    def consume(self, topic: str, count: int, *, offset: int = 0) -> list[Seen]:
        partition = kafka.TopicPartition(topic, 0)
        with kafka_python.consumer(
            self.bootstrap, consumer_timeout_ms=TIMEOUT_S * 1000
        ) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, offset)
            seen = [_seen_by_python(next(consumer)) for _ in range(count)]
            assert consumer.position(partition) == seen[-1].offset + 1
            return seen

    def end_offsets(self, topic: str) -> tuple[int, int]:
        partition = kafka.TopicPartition(topic, 0)
        with kafka_python.consumer(self.bootstrap) as consumer:
            low = consumer.beginning_offsets([partition])[partition]
            high = consumer.end_offsets([partition])[partition]
        return low, high

    def offset_for_time(self, topic: str, timestamp_ms: int) -> int | None:
        partition = kafka.TopicPartition(topic, 0)
        with kafka_python.consumer(self.bootstrap) as consumer:
            found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
        return None if found is None else found.offset


class AioKafka:
    name = "aiokafka"
    codecs = CODECS

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: int = -1
    ) -> list[int]:
        return asyncio.run(self._produce(topic, records, codec, acks))

    async def _produce(
        self, topic: str, records: Sequence[Record], codec: str, acks: int
    ) -> list[int]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == -1 else acks,
            linger_ms=20,
            max_request_size=10_000_000,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            reports = [await asyncio.wait_for(future, TIMEOUT_S) for future in futures]
        except AioKafkaError as error:
            raise Refused(error.errno, str(error)) from error
        finally:
            await producer.stop()
        return [-1 if report is None else report.offset for report in reports]

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        async def ask() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=self.bootstrap)
            await consumer.start()
            try:
                return await asyncio.wait_for(question(consumer), TIMEOUT_S)
            finally:
                await consumer.stop()

        return asyncio.run(ask())

    def consume(self, topic: str, count: int, *, offset: int = 0) -> list[Seen]:
        partition = aiokafka.TopicPartition(topic, 0)

        async def read(consumer: Any) -> list[Seen]:
            consumer.assign([partition])
            consumer.seek(partition, offset)
            return [_seen_by_python(await consumer.getone()) for _ in range(count)]

        seen: list[Seen] = self._ask(read)
        return seen

    def end_offsets(self, topic: str) -> tuple[int, int]:
        partition = aiokafka.TopicPartition(topic, 0)

        async def read(consumer: Any) -> tuple[int, int]:
            low = await consumer.beginning_offsets([partition])
            high = await consumer.end_offsets([partition])
            return low[partition], high[partition]

        offsets: tuple[int, int] = self._ask(read)
        return offsets

    def offset_for_time(self, topic: str, timestamp_ms: int) -> int | None:
        partition = aiokafka.TopicPartition(topic, 0)

        async def read(consumer: Any) -> int | None:
            found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
            return None if found is None else found.offset

        offset: int | None = self._ask(read)
        return offset


def _seen_by_python(message: Any) -> Seen:
    headers = tuple((name, value) for name, value in message.headers)
    record = Record(message.value, message.key, headers, message.timestamp)
    return Seen(message.offset, message.timestamp, record)


def kcat(*arguments: str, given: bytes = b"", timeout_s: float = TIMEOUT_S) -> bytes:
    """One run of kcat; what it printed."""
    # A reader that waits for the end of a partition waits out one fetch, of half a second.
    soon = ("-X", "fetch.wait.max.ms=20") if "-C" in arguments else ()
    done = subprocess.run(
        ["kcat", *arguments, *soon],
        input=given,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


CLIENTS: Final[tuple[type[Client], ...]] = (Confluent, KafkaPython, AioKafka)
