"""A network that loses answers, loses requests and repeats requests: every record exactly once.

The producers retry by themselves; the broker has to know what it has seen. Without the proxy's
misfortunes these tests would prove nothing, so each checks that enough of them happened.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiokafka
import pytest
from confluent_kafka import Producer

from tests.compat.clients import Confluent
from tests.kit import kafka_python
from tests.kit.broker import FAST_GROUPS, BrokerProcess, free_address
from tests.kit.proxy import Fate, Odds, Proxy

TOPIC = "ledger"
COUNT = 600
MISFORTUNES = 10
WAIT_S = 60

Produce = Callable[[str, int], None]


def produce_with_confluent(bootstrap: str, count: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "batch.num.messages": 5,
            "linger.ms": 1,
            "retry.backoff.ms": 5,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 20,
            "log_level": 0,
        }
    )
    failures: list[object] = []
    for i in range(count):
        producer.produce(
            TOPIC,
            value=b"%d" % i,
            partition=0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(WAIT_S) == 0
    assert not failures


def produce_with_kafka_python(bootstrap: str, count: int) -> None:
    with kafka_python.producer(
        bootstrap,
        enable_idempotence=True,
        batch_size=100,
        linger_ms=1,
        retry_backoff_ms=5,
        reconnect_backoff_ms=5,
        reconnect_backoff_max_ms=20,
    ) as producer:
        futures = [producer.send(TOPIC, b"%d" % i, partition=0) for i in range(count)]
        for future in futures:
            future.get(timeout=WAIT_S)


def produce_with_aiokafka(bootstrap: str, count: int) -> None:
    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            max_batch_size=100,
            linger_ms=1,
            retry_backoff_ms=5,
        )
        await producer.start()
        try:
            futures = [await producer.send(TOPIC, b"%d" % i, partition=0) for i in range(count)]
            await asyncio.wait_for(asyncio.gather(*futures), WAIT_S)
        finally:
            await producer.stop()

    asyncio.run(produce())


PRODUCERS = {
    "confluent-kafka": produce_with_confluent,
    "kafka-python": produce_with_kafka_python,
    "aiokafka": produce_with_aiokafka,
}


@contextmanager
def broker_behind(proxy: Proxy, directory: Path) -> Iterator[BrokerProcess]:
    settings = dict(FAST_GROUPS) | {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
    broker = BrokerProcess(directory, settings, listen=free_address())
    proxy.upstream = broker.listen
    with broker:
        yield broker


def check_exactly_once(proxy: Proxy, count: int) -> None:
    """Read through the same proxy, which touches no Fetch."""
    proxy.calm()
    client = Confluent(proxy.address)
    seen = client.consume(TOPIC, count)
    assert [each.record.value for each in seen] == [b"%d" % i for i in range(count)]
    assert client.end_offsets(TOPIC) == (0, count)


@pytest.mark.parametrize("name", PRODUCERS)
@pytest.mark.parametrize(
    ("odds", "fate"),
    [
        (Odds(lose_answer=0.2), Fate.LOSE_ANSWER),
        (Odds(repeat=0.3), Fate.REPEAT),
    ],
    ids=["lost-answers", "repeated-requests"],
)
def test_every_record_is_there_once_and_in_order(
    tmp_path: Path, name: str, odds: Odds, fate: Fate
) -> None:
    with Proxy(odds, seed=7) as proxy, broker_behind(proxy, tmp_path):
        PRODUCERS[name](proxy.address, COUNT)

        check_exactly_once(proxy, COUNT)

    assert proxy.fates[fate] >= MISFORTUNES, proxy.fates


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PRODUCERS)
def test_every_record_is_there_once_after_a_storm_of_all_kinds(
    tmp_path: Path, name: str, seed: int
) -> None:
    odds = Odds(lose_answer=0.1, lose_request=0.05, repeat=0.1)
    with Proxy(odds, seed=seed) as proxy, broker_behind(proxy, tmp_path):
        PRODUCERS[name](proxy.address, 10 * COUNT)

        check_exactly_once(proxy, 10 * COUNT)

    assert all(proxy.fates[fate] >= MISFORTUNES for fate in Fate), proxy.fates
