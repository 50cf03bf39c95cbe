"""Kafka's TransactionalMessageCopier with random aborts, killed and restarted: exactly once.

The program of Kafka's own system tests reads a partition and writes what it read, with its offsets
in the same transaction, and aborts some at random. Whoever reads committed records finds every
message once. Needs Java, and Maven for the first run: `make kafka-reads`.
"""

import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest

from golden.kafka_tools import KafkaJars, fetch_jars
from tests.compat.txn_confluent import Confluent
from tests.compat.txn_served import BOTH, NEEDS_JAVA, Served, make_topic, serving
from tests.kit.broker import wait_until

pytestmark = NEEDS_JAVA
PARTITIONS = 2
MESSAGES = 4_000
TIMEOUT_S = 180.0
INPUT, OUTPUT = "copied-from", "copied-to"


@pytest.fixture(params=BOTH)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "broker").mkdir()
    with serving(request.param, tmp_path / "broker") as broker:
        yield broker


@dataclass(slots=True)
class Copier:
    jars: KafkaJars
    bootstrap: str
    partition: int
    work: Path
    by_group: bool
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.work / f"copier-{self.partition}.out"

    def start(self) -> None:
        arguments = [
            *("--broker-list", self.bootstrap, "--input-topic", INPUT),
            *("--input-partition", str(self.partition), "--output-topic", OUTPUT),
            *("--consumer-group", "copiers", "--transaction-size", "40"),
            *("--transaction-timeout", "5000", "--enable-random-aborts"),
            *("--transactional-id", f"copier-{self.partition}"),
        ]
        if self.by_group:
            arguments += ["--group-mode", "--use-group-metadata"]
        tool = "org.apache.kafka.tools.TransactionalMessageCopier"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.jars.java(tool, *arguments), stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def is_done(self) -> bool:
        assert self.process is not None
        code = self.process.poll()
        assert code in (None, 0), self.log.read_text(errors="replace")[-3000:]
        return code == 0

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()


def fill(bootstrap: str) -> dict[int, list[str]]:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    told: dict[int, list[str]] = {each: [] for each in range(PARTITIONS)}
    for number in range(MESSAGES):
        partition = number % PARTITIONS
        producer.produce(INPUT, key=f"{number}", value=f"{number}", partition=partition)
        told[partition].append(f"{number}")
        producer.poll(0)
    assert producer.flush(60) == 0
    return told


def copied(client: Confluent) -> list[str]:
    return [
        str(value)
        for partition in range(PARTITIONS)
        for _, value in client.read(OUTPUT, partition).records
    ]


@pytest.mark.parametrize("by_group", [False, True], ids=["assigned", "in a group"])
def test_every_message_is_copied_once(served: Served, tmp_path: Path, by_group: bool) -> None:
    for name in (INPUT, OUTPUT):
        make_topic(served.bootstrap, name, PARTITIONS)
    fill(served.bootstrap)
    client, jars, dice = Confluent(served.bootstrap, tmp_path), fetch_jars(), random.Random(7)
    copiers = [
        Copier(jars, served.bootstrap, number, tmp_path, by_group) for number in range(PARTITIONS)
    ]
    try:
        for each in copiers:
            each.start()
        for least in (MESSAGES // 5, MESSAGES // 2):
            wait_until(lambda n=least: len(copied(client)) >= n, "some are copied", TIMEOUT_S)  # type: ignore[misc]
            victim = dice.choice(copiers)
            victim.kill()
            victim.start()
        wait_until(lambda: len(copied(client)) >= MESSAGES, "all are copied", TIMEOUT_S)
        wait_until(lambda: all(each.is_done for each in copiers), "copiers end", TIMEOUT_S)
    finally:
        for each in copiers:
            each.kill()

    assert sorted(map(int, copied(client))) == list(range(MESSAGES))
