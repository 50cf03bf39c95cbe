"""Consumers that handle deletes correctly, one for each client. The kit must accept them.

Three read everything anew whenever they run, so they can miss nothing. The fourth keeps its state,
goes on where it was, and asks the broker whether it has missed a delete meanwhile.
"""

import json
import threading
import warnings
from collections.abc import Mapping
from typing import Any, Final
from urllib.request import urlopen

import aiokafka
import confluent_kafka

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.consumer import Consumer
from ledgerstone.client.fetcher import FetchConfig, Fetcher
from ledgerstone.testing.conformance import ConsumerTask
from ledgerstone.types import TopicPartition
from tests.kit import kafka_python as clients

with warnings.catch_warnings():
    # It reads its schemas with a deprecated function; the suite treats warnings as errors.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

_POLL_MS: Final = 10


class Table:
    """Keys by partition, since a tombstone deletes in its own partition only."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, bytes], bytes] = {}

    def apply(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            return
        if value is None:
            self._rows.pop((partition, key), None)
        else:
            self._rows[partition, key] = value

    def state(self) -> dict[bytes, bytes]:
        return {key: value for (_, key), value in list(self._rows.items())}

    def clear(self) -> None:
        self._rows.clear()


def confluent(task: ConsumerTask) -> dict[bytes, bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": _POLL_MS,
        }
    )
    table = Table()
    try:
        starts = [confluent_kafka.TopicPartition(task.topic, each, 0) for each in task.end_offsets]
        consumer.assign(starts)
        while not task.is_done({each.partition: each.offset for each in consumer.position(starts)}):
            for message in consumer.consume(500, _POLL_MS / 1000):
                assert message.error() is None, message.error()
                table.apply(message.partition() or 0, message.key(), message.value())
    finally:
        consumer.close()
    return table.state()


def kafka_python(task: ConsumerTask) -> dict[bytes, bytes]:
    consumer = clients.consumer(
        task.bootstrap,
        isolation_level="read_committed",
        fetch_max_wait_ms=_POLL_MS,
        enable_auto_commit=False,
    )
    table = Table()
    try:
        partitions = [kafka.TopicPartition(task.topic, each) for each in task.end_offsets]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while not task.is_done({each.partition: consumer.position(each) for each in partitions}):
            for records in consumer.poll(timeout_ms=_POLL_MS).values():
                for record in records:
                    table.apply(record.partition, record.key, record.value)
    finally:
        consumer.close()
    return table.state()


async def aio(task: ConsumerTask) -> dict[bytes, bytes]:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap,
        isolation_level="read_committed",
        fetch_max_wait_ms=_POLL_MS,
        enable_auto_commit=False,
    )
    table = Table()
    await consumer.start()
    try:
        partitions = [aiokafka.TopicPartition(task.topic, each) for each in task.end_offsets]
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        positions: dict[int, int] = {}
        while not task.is_done(positions):
            for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                for record in records:
                    table.apply(record.partition, record.key, record.value)
            positions = {each.partition: await consumer.position(each) for each in partitions}
    finally:
        await consumer.stop()
    return table.state()


class Ours:
    """Runs until it is stopped; state and positions are kept in the task's memory."""

    def __init__(self, task: ConsumerTask) -> None:
        self._task = task
        self._table: Table = task.memory.setdefault("table", Table())
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def state(self) -> Mapping[bytes, bytes]:
        return self._table.state()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        positions: dict[int, int] = self._task.memory.setdefault("positions", {})
        if self._has_missed_a_delete(positions):
            self._table.clear()
            positions.clear()
        host, _, port = self._task.bootstrap.rpartition(":")
        with Client([Endpoint(host, int(port))]) as client:
            topic = self._task.topic
            wanted = {
                TopicPartition(topic, number): positions.get(number, 0)
                for number in client.topic(topic).partitions
            }
            consumer = Consumer(Fetcher(client, FetchConfig(max_wait_ms=_POLL_MS)), wanted)
            while not self._stopping.is_set():
                for partition, record in consumer.poll():
                    self._table.apply(partition.partition, record.key, record.value)
                positions |= {each.partition: at for each, at in consumer.positions.items()}

    def _has_missed_a_delete(self, positions: Mapping[int, int]) -> bool:
        path = f"{self._task.http}/api/v1/topics/{self._task.topic}/tombstones"
        with urlopen(path, timeout=10) as response:
            answer: Any = json.load(response)
        return any(
            positions.get(each["partition"], 0) < (each["removed_below_offset"] or 0)
            for each in answer["partitions"]
        )
