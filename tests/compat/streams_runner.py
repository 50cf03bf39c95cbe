"""Tells a story to a Kafka Streams program on some broker: topics, feeding, waiting, reading.

`quiet` is the barrier: everything that was fed is processed, flushed and committed. A program that
is killed there loses nothing and does nothing twice, so what comes out is determined. Between
barriers at-least-once leaves it open: a store's changelog may be ahead of the committed offsets,
and a delete that is processed again would find nothing left to delete, and say nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import confluent_kafka

from golden.kafka_streams import StreamsProgram, fetch_streams_jars
from tests.compat.confluent_admin import AdminClient, NewTopic
from tests.compat.streams_story import (
    COUNTS,
    INPUTS,
    OUTPUTS,
    PARTITIONS,
    Fed,
    fold,
    without_zeros,
)
from tests.kit.broker import wait_until

APPLICATION: Final = "fk-join"
# A JVM, two threads and their stores on a machine that has other things to do.
TIMEOUT_S: Final = 300.0
# Compaction as eager as it gets: small segments, every dirty byte counts. Only tombstones stay for
# as long as the program may need to read a wave or to restore a store. With 50 ms a busy program
# missed one on Apache Kafka, and kept the row for good.
TOMBSTONES_STAY_MS: Final = 20_000
EAGER: Final = {
    "segment.ms": "400",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": str(TOMBSTONES_STAY_MS),
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "500",
}
SETTINGS: Final = {
    "application.id": APPLICATION,
    "processing.guarantee": "at_least_once",
    "num.stream.threads": "2",
    "replication.factor": "1",
    "commit.interval.ms": "100",
    "repartition.purge.interval.ms": "300",
    "statestore.cache.max.bytes": "0",
    "main.consumer.session.timeout.ms": "3000",
    "main.consumer.heartbeat.interval.ms": "500",
    "main.consumer.auto.offset.reset": "earliest",
    **{f"topic.{key}": value for key, value in EAGER.items()},
}

Tables = dict[str, dict[str, str]]


@dataclass(slots=True)
class Runner:
    bootstrap: str
    program: StreamsProgram

    @classmethod
    def on(cls, bootstrap: str, work: Path, settings: Mapping[str, str] | None = None) -> "Runner":
        """A program that is not started yet; its inputs and outputs are there."""
        merged = {**SETTINGS, "bootstrap.servers": bootstrap, **(settings or {})}
        program = StreamsProgram(
            jars=fetch_streams_jars(), main_class="ForeignKeyJoin", work=work, settings=merged
        )
        admin = _admin(bootstrap)
        config = {"cleanup.policy": "compact", **EAGER}
        topics = [
            NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, config=config)
            for name in (*INPUTS, *OUTPUTS)
        ]
        for made in admin.create_topics(topics).values():
            made.result(20)
        return cls(bootstrap, program)

    def start(self) -> None:
        self.program.start()
        wait_until(self._is_running, "the program runs", TIMEOUT_S)

    def _is_running(self) -> bool:
        text = self.program.log_text()
        assert not self.program.has_ended, text[-4000:]
        return "state RUNNING" in text

    def kill_and_forget(self) -> None:
        """kill -9, and the local state is gone."""
        self.program.kill()
        self.program.delete_state()

    def feed(self, records: Iterable[Fed]) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5}
        producer = confluent_kafka.Producer(settings)
        failed: list[object] = []
        for each in records:
            producer.produce(
                each.topic,
                key=each.key.encode(),
                value=None if each.value is None else each.value.encode(),
                partition=each.partition,
                timestamp=each.timestamp_ms,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not failed

    def quiet(self) -> None:
        """Waits until the program has committed all there is to read, its own topics included."""
        # A new one each time: librdkafka's does not find a coordinator again that was restarted.
        admin = _admin(self.bootstrap)
        reader = self._reader()
        try:
            wait_until(lambda: self._is_quiet(admin, reader), "all is processed", TIMEOUT_S)
        finally:
            reader.close()

    def _is_quiet(self, admin: AdminClient, reader: confluent_kafka.Consumer) -> bool:
        assert not self.program.has_ended, self.program.log_text()[-4000:]
        # Committed first: what is appended afterwards makes it false, never true.
        committed = _committed(admin)
        return all(
            committed.get(each, 0) == end or end == 0 for each, end in self._ends(reader).items()
        )

    def _ends(self, reader: confluent_kafka.Consumer) -> dict[tuple[str, int], int]:
        """End offsets of whatever the program reads as a member of its group."""
        listed = reader.list_topics(timeout=20).topics
        read = [name for name in listed if name in INPUTS or _is_read_again(name)]
        return {
            (name, number): reader.get_watermark_offsets(
                confluent_kafka.TopicPartition(name, number), timeout=20, cached=False
            )[1]
            for name in read
            for number in listed[name].partitions
        }

    def outputs(self) -> Tables:
        """Each output topic read from its start and folded."""
        tables = {name: fold(self.records(name)) for name in OUTPUTS}
        tables[COUNTS] = without_zeros(tables[COUNTS])
        return tables

    def records(self, topic: str) -> list[tuple[str, str | None]]:
        """All that is left of a topic, from its start."""
        reader = self._reader()
        found: list[tuple[str, str | None]] = []
        try:
            parts = [
                confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING)
                for number in range(PARTITIONS)
            ]
            reader.assign(parts)
            ended = 0
            while ended < PARTITIONS:
                message = reader.poll(20)
                assert message is not None, f"{topic} does not end"
                if (error := message.error()) is not None:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    ended += 1
                    continue
                key, value = message.key(), message.value()
                assert key is not None
                found.append((key.decode(), None if value is None else value.decode()))
        finally:
            reader.close()
        return found

    def _reader(self) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "streams-story",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )


def _is_read_again(topic: str) -> bool:
    """Topics the program writes for itself, apart from changelogs."""
    return topic.startswith(f"{APPLICATION}-") and not topic.endswith("-changelog")


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def _committed(admin: AdminClient) -> dict[tuple[str, int], int]:
    group = confluent_kafka.ConsumerGroupTopicPartitions(APPLICATION)
    asked = admin.list_consumer_group_offsets([group])
    answer = asked[APPLICATION].result(20).topic_partitions
    return {(each.topic, each.partition): each.offset for each in answer if each.offset >= 0}
