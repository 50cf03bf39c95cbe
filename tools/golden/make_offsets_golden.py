"""Makes tests/golden/kafka_offsets: a __consumer_offsets partition with transactions, by Kafka.

    PYTHONPATH=tools python -m golden.make_offsets_golden

Shell grade. Three transactional producers commit offsets of their groups: one commits, one aborts,
one is left open when the broker stops. What Kafka's own consumers are told then is kept beside the
files.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from golden.kafka_broker import KafkaBroker
from golden.kafka_client import create_topics
from golden.kafka_tools import default_cache, fetch_jars

REPOSITORY = Path(__file__).resolve().parents[2]
OUT = REPOSITORY / "tests" / "golden" / "kafka_offsets"
TOPIC = "orders"
PARTITION = "__consumer_offsets-0"
KEPT = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def _consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    )


def _in_transaction(bootstrap: str, group: str, *offsets: int) -> Producer:
    """Commits each offset in turn, inside one transaction that stays open."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"txn-{group}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    consumer = _consumer(bootstrap, group)
    for offset in offsets:
        places = [TopicPartition(TOPIC, 0, offset)]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
    consumer.close()
    return producer


def _committed(bootstrap: str, group: str) -> int:
    """-1: none; as a reader sees it that does not ask for stable offsets."""
    consumer = _consumer(bootstrap, group)
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], 30)
    consumer.close()
    return max(int(found.offset), -1)


def _write(bootstrap: str) -> dict[str, int]:
    create_topics(bootstrap, {TOPIC: {}})
    for group in ("committed", "aborted", "overtaken"):
        consumer = _consumer(bootstrap, group)
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        consumer.close()
    _in_transaction(bootstrap, "committed", 10, 11).commit_transaction(30)
    _in_transaction(bootstrap, "aborted", 20).abort_transaction(30)
    _in_transaction(bootstrap, "aborted-only", 21).abort_transaction(30)
    overtaken = _in_transaction(bootstrap, "overtaken", 30)
    consumer = _consumer(bootstrap, "overtaken")
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 31)], asynchronous=False)
    consumer.close()
    overtaken.commit_transaction(30)
    return {
        group: _committed(bootstrap, group)
        for group in ("committed", "aborted", "aborted-only", "overtaken")
    }


def main() -> int:
    jars = fetch_jars(default_cache())
    work = Path(tempfile.mkdtemp(prefix="kafka-offsets-"))
    broker = KafkaBroker(jars=jars, work=work / "broker")
    try:
        broker.format()
        broker.start()
        seen = _write(broker.bootstrap)
        # Kept until the end: closing a producer would abort its transaction.
        still_open = _in_transaction(broker.bootstrap, "pending", 40)
        broker.stop()
        del still_open
    finally:
        if broker.process is not None:
            broker.kill()
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / PARTITION).mkdir(parents=True)
    for file in sorted((broker.data / PARTITION).iterdir()):
        if file.suffix in KEPT and file.stat().st_size < (1 << 20):
            shutil.copy(file, OUT / PARTITION)
    facts = {"kafka": jars.version, "topic": TOPIC, "committed": seen, "pending": {"pending": 40}}
    (OUT / "expected.json").write_text(json.dumps(facts, indent=2) + "\n")
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
