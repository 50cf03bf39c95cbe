"""Kafka Streams with exactly_once_v2: totals with changelogs, killed in the middle, restored.

Every change of a total is written, so each output has its totals 1, 2, 3 … in order, with no number
twice and none missing, however often the program is killed and whether it keeps its state. The same
has to hold on Apache Kafka. Needs Java, and Maven for the first run: `make kafka-reads`.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest

from golden.kafka_streams import StreamsProgram, fetch_streams_jars
from ledgerstone.client.partitioner import partition_of
from tests.compat.txn_confluent import Confluent
from tests.compat.txn_served import BOTH, NEEDS_JAVA, Served, make_topic, serving
from tests.kit.broker import wait_until

pytestmark = NEEDS_JAVA
PARTITIONS = 3
KEYS, GROUPS = 12, 4
EVENTS, TOPIC = 3_000, "events"
APPLICATION = "totals"
TIMEOUT_S = 240.0
SETTINGS = {
    "application.id": APPLICATION,
    "processing.guarantee": "exactly_once_v2",
    "num.stream.threads": "2",
    "replication.factor": "1",
    "commit.interval.ms": "100",
    "statestore.cache.max.bytes": "0",
    # So that a kill finds many transactions half done.
    "main.consumer.max.poll.records": "25",
    "producer.transaction.timeout.ms": "3000",
    "main.consumer.session.timeout.ms": "3000",
    "main.consumer.heartbeat.interval.ms": "500",
    "main.consumer.auto.offset.reset": "earliest",
}
# When to kill: after so many of a key's totals are committed; and whether the state is lost too.
KILLS = ((200, False), (800, True), (1_500, False), (2_200, True))


class Event(NamedTuple):
    key: str
    group: str
    amount: int


@pytest.fixture(params=BOTH)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "broker").mkdir()
    with serving(request.param, tmp_path / "broker") as broker:
        yield broker


def events(seed: int) -> list[Event]:
    dice = random.Random(seed)
    return [
        Event(f"k{dice.randrange(KEYS)}", f"g{dice.randrange(GROUPS)}", dice.randrange(100))
        for _ in range(EVENTS)
    ]


def feed(bootstrap: str, told: list[Event]) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
    )
    for each in told:
        producer.produce(
            TOPIC,
            key=each.key,
            value=f"{each.group}:{each.amount}",
            partition=partition_of(each.key.encode(), PARTITIONS),
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def totals_by_key(told: list[Event]) -> dict[str, list[str]]:
    """Every total each key ever had, in order."""
    found: dict[str, list[str]] = defaultdict(list)
    sums: dict[str, int] = defaultdict(int)
    for each in told:
        sums[each.key] += each.amount
        found[each.key].append(f"{len(found[each.key]) + 1}:{sums[each.key]}")
    return dict(found)


def totals_by_group(told: list[Event]) -> dict[str, tuple[int, int]]:
    """Events of three partitions meet in any order: how many and their sum are all that is sure."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for each in told:
        count, total = found[each.group]
        found[each.group] = count + 1, total + each.amount
    return dict(found)


def read(client: Confluent, topic: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for partition in range(PARTITIONS):
        for key, value in client.read(topic, partition).records:
            assert value is not None
            found[key].append(value)
    return dict(found)


def count(outputs: Mapping[str, list[str]]) -> int:
    return sum(map(len, outputs.values()))


def test_killed_program_leaves_every_total_once(served: Served, tmp_path: Path) -> None:
    for name in (TOPIC, "per-key", "per-group"):
        make_topic(served.bootstrap, name, PARTITIONS)
    told, client = events(1), Confluent(served.bootstrap, tmp_path)
    program = StreamsProgram(
        jars=fetch_streams_jars(),
        main_class="ExactlyOnceTotals",
        work=tmp_path / "program",
        settings={**SETTINGS, "bootstrap.servers": served.bootstrap},
    )

    def has_written(number: int) -> bool:
        assert not program.has_ended, program.log_text()[-4000:]
        return min(count(read(client, name)) for name in ("per-key", "per-group")) >= number

    try:
        program.start()
        feed(served.bootstrap, told[: EVENTS // 2])
        for life, (number, loses_state) in enumerate(KILLS):
            if number > EVENTS // 2 - 1 and life == 2:
                feed(served.bootstrap, told[EVENTS // 2 :])
            wait_until(lambda least=number: has_written(least), "it works", TIMEOUT_S)  # type: ignore[misc]
            program.kill()
            if loses_state:
                program.delete_state()
            if life == 1:
                served.kill()
                served.start()
            program.start()
        wait_until(lambda: has_written(EVENTS), "all is processed", TIMEOUT_S)
    finally:
        program.kill()

    groups = read(client, "per-group")
    assert read(client, "per-key") == totals_by_key(told)
    for group, totals in groups.items():
        numbers = [int(total.partition(":")[0]) for total in totals]
        assert numbers == list(range(1, len(totals) + 1)), group
    last = {group: tuple(map(int, totals[-1].split(":"))) for group, totals in groups.items()}
    assert last == totals_by_group(told)
