"""One Spark session and one broker for all tests here: both cost seconds to start.

Every test of this directory is marked `spark`, and one worker runs them all (tests/conftest.py).
Queries end by themselves (`availableNow`); nobody waits for a timer.
"""

import itertools
import warnings
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

import ledgerstone.spark
from ledgerstone.client.admin import NewTopic, create_topic, delete_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from tests.kit.both_brokers import create_topic_and_wait
from tests.kit.broker import BrokerProcess

_NUMBERS = itertools.count()

MakeTopic = Callable[..., str]
Produce = Callable[..., None]
Recreate = Callable[[str], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # Not by its path: comparing 17,000 of them takes a fifth of a second.
        if item.nodeid.startswith("tests/spark/"):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    directory = tmp_path_factory.mktemp("spark")
    session = ledgerstone.spark.session(
        "tests",
        master="local[2,3]",
        short_lived=True,
        conf={
            "spark.sql.shuffle.partitions": "2",
            # As `pipeline serve` has it. What names no pool is not concerned.
            "spark.scheduler.mode": "FAIR",
            # The queries of tests have a few rows: compiling each costs more than running it, and
            # so does planning it again. Examples and the demo run as Spark comes.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "local"),
            "spark.log.level": "ERROR",
        },
    )
    yield session
    with warnings.catch_warnings():
        # Py4J leaves its sockets to the collector.
        warnings.simplefilter("ignore", ResourceWarning)
        session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as process:
        yield process


@pytest.fixture(scope="session")
def client(broker: BrokerProcess) -> Iterator[Client]:
    host, _, port = broker.bootstrap.rpartition(":")
    with Client([Endpoint(host, int(port))]) as made:
        yield made


@pytest.fixture(scope="session")
def new_name() -> Callable[[str], str]:
    """Names for topics and groups that no other test of this session uses."""
    return lambda stem: f"{stem}-{next(_NUMBERS)}"


@pytest.fixture(scope="session")
def make_topic(client: Client) -> MakeTopic:
    return topics_of(client)


def topics_of(client: Client) -> MakeTopic:
    def make(stem: str = "topic", *, partitions: int = 1, **configs: str) -> str:
        name = f"{stem}-{next(_NUMBERS)}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=settings)
        create_topic_and_wait(client, topic)
        return name

    return make


@pytest.fixture(scope="session")
def recreate(client: Client) -> Recreate:
    """Deletes a topic and makes one of the same name."""

    def again(name: str) -> None:
        partitions = len(client.topic(name).partitions)
        delete_topic(client, name)
        topic = NewTopic(name=name, partitions=partitions, replication_factor=1, configs={})
        create_topic(client, topic)

    return again


@pytest.fixture(scope="session")
def produce(client: Client) -> Produce:
    return producing_to(client)


def producing_to(client: Client) -> Produce:
    def send(*records: NewRecord, **config: object) -> None:
        producer = Producer(client, ProducerConfig(**config))  # type: ignore[arg-type]
        for outcome in producer.send(records):
            if isinstance(outcome, Exception):
                raise outcome

    return send
