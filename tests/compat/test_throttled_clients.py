"""Clients whose quota is used up: all records arrive, in order, and the throttle times are seen."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from ledgerstone.client.blocking import Client as OurClient
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.quotas import alter_quotas
from ledgerstone.quotas.entities import QuotaEntity
from tests.compat.clients import CLIENTS, Client, Record
from tests.kit.broker import BrokerProcess

USER = QuotaEntity.of({"user": "ANONYMOUS"})
# 40 KB a time; a second of the rate at once is free, so the second time waits.
RECORDS = [Record(bytes([number]) * 1000, b"k", (), 1_700_000_000_000) for number in range(40)]
RATE = 50_000.0

SetQuota = Callable[..., None]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """With windows of two seconds in all, so that nobody waits for long."""
    with BrokerProcess(tmp_path, settings={"quota.window.num": "2"}) as process:
        yield process


@pytest.fixture
def set_quota(own_broker: BrokerProcess) -> Iterator[SetQuota]:
    host, _, port = own_broker.bootstrap.rpartition(":")
    with OurClient([Endpoint(host, int(port))]) as client:

        def change(**limits: float | None) -> None:
            alter_quotas(client, USER, limits)

        yield change


@pytest.fixture
def limited(own_broker: BrokerProcess, client_class: type[Client]) -> Client:
    return client_class(own_broker.bootstrap)


@pytest.fixture(params=["confluent-kafka", "kafka-python", "aiokafka"])
def client_class(request: pytest.FixtureRequest) -> type[Client]:
    return next(kind for kind in CLIENTS if kind.name == request.param)


def waited_ms(broker: BrokerProcess, quota: str) -> int:
    """As the broker tells of it."""
    found = json.loads(broker.get("/api/v1/quotas"))["throttled"]
    return sum(each["total_ms"] for each in found if each["quota"] == quota)


def test_producer_over_its_quota_loses_nothing(
    own_broker: BrokerProcess, limited: Client, set_quota: SetQuota
) -> None:
    set_quota(producer_byte_rate=RATE)

    for _ in range(3):
        limited.produce("slow", RECORDS)
    seen = limited.consume("slow", 3 * len(RECORDS))

    assert [each.record.value for each in seen] == [each.value for each in RECORDS] * 3
    assert waited_ms(own_broker, "producer_byte_rate") > 100


def test_consumer_gets_everything_in_the_end(
    own_broker: BrokerProcess, limited: Client, set_quota: SetQuota
) -> None:
    limited.produce("wanted", RECORDS)
    set_quota(consumer_byte_rate=RATE)

    first = limited.consume("wanted", len(RECORDS))
    second = limited.consume("wanted", len(RECORDS))

    assert [each.record.value for each in first] == [each.value for each in RECORDS]
    assert first == second
    assert waited_ms(own_broker, "consumer_byte_rate") > 0


def test_librdkafka_tells_of_the_throttle_time(
    own_broker: BrokerProcess, set_quota: SetQuota
) -> None:
    set_quota(producer_byte_rate=20_000.0)
    told: list[float] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": own_broker.bootstrap,
            "throttle_cb": lambda event: told.append(event.throttle_time),
        }
    )

    for record in RECORDS:
        producer.produce("told", record.value)
    deadline_s = time.monotonic() + 30
    while not any(seconds > 0 for seconds in told) and time.monotonic() < deadline_s:
        producer.poll(0.1)
    set_quota(producer_byte_rate=None)
    producer.flush(30)

    assert max(told) > 0.1
