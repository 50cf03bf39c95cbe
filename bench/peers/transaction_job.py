"""Transactions one after the other with librdkafka. A program. Shell.

    python -m bench.peers.transaction_job loop BOOTSTRAP TOPIC PARTITIONS RECORDS COUNT BEFORE BYTES
    python -m bench.peers.transaction_job fill BOOTSTRAP TOPIC TRANSACTIONS RECORDS BYTES

`loop` answers as KafkaTransactionLoop does. `fill` writes a topic for readers: every tenth
transaction is aborted. It answers with the number of records that were committed.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import Producer

from bench.client_loop import TIMEOUT_S
from bench.peers.jobs import RESULT
from bench.peers.load_job import values_of
from bench.peers.percentiles import percentiles

ABORTED: Final = 10  # one of so many


def _producer(bootstrap: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"librdkafka-{os.getpid()}",
            "linger.ms": 0,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 3,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def loop(
    bootstrap: str, topic: str, partitions: int, records: int, count: int, before: int, size: int
) -> list[float]:
    producer, value = _producer(bootstrap), values_of(size)[0]
    taken: list[float] = []
    started = 0.0
    for number in range(-before, count):
        if number == 0:
            started = time.perf_counter()
        producer.begin_transaction()
        for _ in range(records):
            for partition in range(partitions):
                producer.produce(topic, value, partition=partition)
        if producer.flush(TIMEOUT_S):
            raise RuntimeError("records were not delivered")
        asked = time.perf_counter()
        producer.commit_transaction(TIMEOUT_S)
        if number >= 0:
            taken.append(time.perf_counter() - asked)
    seconds = time.perf_counter() - started
    found = percentiles([each * 1e6 for each in taken])
    return [seconds, found.p50, found.p99]


def fill(bootstrap: str, topic: str, transactions: int, records: int, size: int) -> int:
    producer, values = _producer(bootstrap), values_of(size)
    committed = 0
    for number in range(transactions):
        producer.begin_transaction()
        for each in range(records):
            producer.produce(topic, values[each % len(values)], partition=0)
        if number % ABORTED == 0:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
            committed += records
    return committed


def main(arguments: Sequence[str]) -> None:
    action, bootstrap, topic, *numbers = arguments
    jobs: dict[str, Callable[..., object]] = {"loop": loop, "fill": fill}
    print(RESULT + json.dumps(jobs[action](bootstrap, topic, *map(int, numbers))))


if __name__ == "__main__":
    main(sys.argv[1:])
