"""A broker for the session, shared by all tests that need no restart, and names of their own."""

import gc
import itertools
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat.clients import CLIENTS, Client
from tests.compat.confluent_admin import AdminClient, NewTopic
from tests.kit.broker import BrokerProcess

_NUMBERS = itertools.count()

NewName = Callable[[str], str]
CreateTopic = Callable[..., str]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as process:
        yield process
        process.stop()
        # An error the broker wrote down is a failure, even where every client was content.
        assert " ERROR " not in process.log_text, process.log_text


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """For tests that stop, kill or pause it."""
    with BrokerProcess(tmp_path) as process:
        yield process
    with warnings.catch_warnings():
        # kafka-python forgets to close sockets whose connection was refused. Collected here, they
        # warn here, and not as an error in whichever test runs next.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def new_name() -> NewName:
    """Names for topics and groups that no other test of this session uses."""
    return lambda stem: f"{stem}-{next(_NUMBERS)}"


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    # It may outlive the broker, and would say so on stderr.
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


@pytest.fixture
def create_topic(admin: AdminClient, new_name: NewName) -> CreateTopic:
    def create(stem: str = "topic", *, partitions: int = 1, **config: str) -> str:
        topic = new_name(stem)
        settings = {key.replace("_", "."): value for key, value in config.items()}
        asked = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings)
        admin.create_topics([asked])[topic].result(20)
        return topic

    return create


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    return create_topic()


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, broker: BrokerProcess) -> Client:
    kind: type[Client] = request.param
    return kind(broker.bootstrap)


@pytest.fixture
def needs_kcat() -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed: apt-get install kcat")
