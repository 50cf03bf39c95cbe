"""Every test here runs against Apache Kafka and against a broker of ours, with the same words."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from ledgerstone.client.admin import NewTopic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from tests.kit.both_brokers import BOTH_BROKERS, create_topic_and_wait, running_broker

_NUMBERS = itertools.count()

NewName = Callable[[str], str]
MakeTopic = Callable[..., str]


@pytest.fixture(scope="session", params=BOTH_BROKERS)
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with running_broker(request.param, tmp_path_factory.mktemp("broker")) as found:
        yield found.bootstrap


def connected(bootstrap: str) -> Client:
    host, _, port = bootstrap.rpartition(":")
    return Client([Endpoint(host, int(port))])


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    with connected(bootstrap) as made:
        yield made


@pytest.fixture
def other(bootstrap: str) -> Iterator[Client]:
    """Of another process, as far as a broker can tell."""
    with connected(bootstrap) as made:
        yield made


@pytest.fixture
def new_name() -> NewName:
    return lambda stem: f"{stem}-{next(_NUMBERS)}"


@pytest.fixture
def make_topic(client: Client, new_name: NewName) -> MakeTopic:
    def make(stem: str = "topic", *, partitions: int = 1) -> str:
        name = new_name(stem)
        # Some records here are of 1970: a broker that lives long enough would let them expire.
        kept = {"retention.ms": "-1"}
        topic = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=kept)
        create_topic_and_wait(client, topic)
        return name

    return make
