"""confluent-kafka with Ledgerstone: a compacted topic, a delete, and a table built by reading it.

    python examples/plain_client.py [BOOTSTRAP]

Without an address it starts its own broker. Nothing else here is specific to Ledgerstone: the same
program runs against Apache Kafka. Exits with an error if the table differs from what was written.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

# A value of None is a tombstone. An empty value is not.
HISTORY: list[tuple[str, str | None]] = [
    ("alice", "Ulm"),
    ("bob", "Bern"),
    ("alice", "Graz"),
    ("carol", ""),
    ("bob", None),
]
EXPECTED = {"alice": "Graz", "carol": ""}


@contextlib.contextmanager
def a_broker() -> Iterator[str]:
    """Runs a broker for the duration of the block; yields its address."""
    with tempfile.TemporaryDirectory() as directory:
        ready = Path(directory, "ready.json")
        command = [sys.executable, "-m", "ledgerstone", "up", "--data", f"{directory}/data"]
        command += ["--listen", "127.0.0.1:0", "--ready-file", str(ready), "--log-level", "error"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not ready.exists():
                if process.poll() is not None:
                    raise SystemExit("the broker did not start")
                time.sleep(0.01)
            yield str(json.loads(ready.read_text())["bootstrap"])
        finally:
            process.terminate()
            process.wait(timeout=60)


def create_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, num_partitions=3, config={"cleanup.policy": "compact"})
    admin.create_topics([new])[topic].result(timeout=30)


def write(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for key, value in HISTORY:
        producer.produce(topic, key=key.encode(), value=None if value is None else value.encode())
    left = producer.flush(30)
    if left:
        raise SystemExit(f"{left} records were not taken")


def read_table(bootstrap: str, topic: str) -> dict[str, str]:
    """The latest value of each key: what any consumer of a compacted topic builds."""
    settings: dict[str, str | int | float | bool | None] = {
        "bootstrap.servers": bootstrap,
        "group.id": f"{topic}-readers",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": False,
    }
    table: dict[str, str] = {}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        seen = 0
        while seen < len(HISTORY):
            record = consumer.poll(30)
            if record is None or record.error():
                raise SystemExit(f"after {seen} records: {record and record.error()}")
            seen += 1
            key, value = record.key(), record.value()
            name = str(key, "utf-8") if isinstance(key, bytes) else str(key)
            if value is None:
                table.pop(name, None)
            else:
                table[name] = str(value, "utf-8") if isinstance(value, bytes) else value
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return table


def main(bootstrap: str) -> None:
    topic = f"customers-{uuid.uuid4().hex[:8]}"
    create_topic(bootstrap, topic)
    write(bootstrap, topic)
    table = read_table(bootstrap, topic)
    print(f"{len(HISTORY)} records were written to {topic}; the table is {table}")
    if table != EXPECTED:
        raise SystemExit(f"expected {EXPECTED}")
    print("bob was deleted by a null value; carol's empty value deletes nothing")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with a_broker() as address:
            main(address)
