"""Cleaning by a whole broker, scenario by scenario.

Scenarios of single passes are in tests/unit/cleaner/test_scenarios_*.py.
"""

from random import Random

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import create_topic, fetch, fetched, produced
from tests.unit.server.test_cleaning import (
    DAY_MS,
    HOUR_MS,
    compact_now,
    compacted,
    on_disk,
    put,
    runs,
)

TOPICS = ("first", "second", "third")
MESSAGES = 3_000
DELETES = 0.3


def read_whole(client: Client, topic: str) -> list[tuple[str, str | None]]:
    """Every record from the start to the end, fetch by fetch."""
    found = []
    position, end_offset = 0, 1
    while position < end_offset:
        answer = fetched(client, fetch({0: position}, topic))
        end_offset = answer.high_watermark
        data = answer.records
        assert isinstance(data, bytes | memoryview)
        for at, header in iter_headers(data):
            for record in iter_records(data, at):
                value = None if record.value is None else bytes(record.value).decode()
                found.append((bytes(record.key or b"").decode(), value))
            position = header.next_offset
    return found


def living(records: list[tuple[str, str | None]]) -> dict[str, str]:
    return {key: value for key, value in sorted(dict(records).items()) if value is not None}


def test_what_is_left_of_random_writes_and_deletes_is_the_last_value_of_every_living_key() -> None:
    """Random keys and deletes to several topics; the last value of each key must match a model."""
    machine = InProcess(settings={"log.cleaner.backoff.ms": "100"})
    client, dice = machine.connect(), Random(16)
    written: dict[str, list[tuple[str, str | None]]] = {topic: [] for topic in TOPICS}
    for topic in TOPICS:
        create_topic(
            client,
            topic,
            cleanup_policy="compact",
            segment_bytes="4000",
            delete_retention_ms="1000",
        )

    for number in range(MESSAGES):
        topic, key = dice.choice(TOPICS), f"key-{dice.randrange(MESSAGES // 5)}"
        pair = (key, None if dice.random() < DELETES else f"value {number}")
        records = batch(pair, timestamp=machine.clock.now_ms())
        assert produced(client, records, topic).error_code == ErrorCode.NONE
        written[topic].append(pair)
        if number % 100 == 0:
            machine.advance(200)
    for _ in range(3):
        machine.jump(days=1)
        machine.advance(2_000)

    for topic in TOPICS:
        left = read_whole(machine.connect(), topic)
        assert living(left) == living(written[topic])
        assert len(left) < len(written[topic]) / 2
        assert [key for key, value in left if value is None] == []


def test_as_in_kafka_nothing_removes_a_stamped_tombstone_on_a_quiet_topic() -> None:
    """Configured like Kafka: without new data no pass runs. The next test shows our default."""
    machine = InProcess(settings={"ledgerstone.cleaner.finish.deletes": "false"})
    client = machine.connect()
    compacted(client, delete_retention_ms=str(HOUR_MS))
    put(machine, client, ("a", "1"), ("a", None))
    compact_now(machine)

    machine.jump(days=30)
    machine.advance(60_000)

    assert on_disk(machine) == [("a", None)]
    assert read_whole(machine.connect(), "events") == [("a", None)]


def test_stamped_tombstone_on_a_quiet_topic_goes_at_its_horizon(
    machine: InProcess, client: Client
) -> None:
    """Our default: a pass runs once the horizon has passed, even without new data."""
    compacted(client, delete_retention_ms=str(DAY_MS))
    put(machine, client, ("a", "1"), ("a", None))
    compact_now(machine)

    machine.advance(60_000)
    before = on_disk(machine)
    machine.jump(days=1)

    assert before == [("a", None)]
    assert on_disk(machine) == []
    assert len(runs(machine)) == 2
