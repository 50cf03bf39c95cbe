"""A broker that is killed in the middle of a transaction, and a client that goes on with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.txn_aiokafka import AioKafka
from tests.compat.txn_confluent import Confluent
from tests.compat.txn_face import TxnClient
from tests.compat.txn_java import Java, JavaOld
from tests.compat.txn_kafka_python import KafkaPython
from tests.compat.txn_served import BOTH, NEEDS_JAVA, Served, make_topic, serving
from tests.kit.broker import wait_until

CLIENTS = [
    Confluent,
    KafkaPython,
    AioKafka,
    pytest.param(Java, marks=NEEDS_JAVA),
    pytest.param(JavaOld, marks=NEEDS_JAVA),
]
TOPIC, GROUP = "killed", "killed-group"


@pytest.fixture(params=BOTH)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "broker").mkdir()
    with serving(request.param, tmp_path / "broker") as broker:
        yield broker


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, served: Served, tmp_path: Path) -> Iterator[TxnClient]:
    made: TxnClient = request.param(served.bootstrap, tmp_path)
    yield made
    made.close()


def test_client_goes_on_with_its_transaction(served: Served, client: TxnClient) -> None:
    make_topic(served.bootstrap, TOPIC)
    producer = client.producer("survivor")
    producer.init()
    producer.begin()
    producer.send(TOPIC, "before", "1")
    producer.flush()

    served.kill()
    served.start()
    producer.send(TOPIC, "after", "2")
    producer.send_offset(GROUP, TOPIC, 9)
    producer.flush()
    producer.commit()

    wait_until(lambda: client.end(TOPIC, committed=True) == 3, "the marker is there")
    assert client.read(TOPIC).records == [("before", "1"), ("after", "2")]
    wait_until(lambda: client.committed_offset(GROUP, TOPIC) == 9, "the offset is committed")
    producer.vanish()


def test_open_transaction_of_a_killed_client_ends_with_its_successor(
    served: Served, client: TxnClient
) -> None:
    make_topic(served.bootstrap, TOPIC)
    first = client.producer("successive")
    first.init()
    first.begin()
    first.send(TOPIC, "lost", "1")
    first.flush()
    served.kill()
    first.vanish()

    served.start()
    second = client.producer("successive")
    second.init()
    second.begin()
    second.send(TOPIC, "kept", "2")
    second.commit()

    wait_until(lambda: client.end(TOPIC, committed=True) == 4, "both markers are there")
    assert client.read(TOPIC).records == [("kept", "2")]
    second.vanish()
