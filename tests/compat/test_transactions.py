"""Transactions with clients that know nothing of us, on our broker and on Apache Kafka.

What a test demands has to hold on Apache Kafka too: `make kafka-reads` runs each of them there, and
with Kafka's Java clients of version 4 (TV2) and 3 (TV1).
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.compat.conftest import NewName
from tests.compat.txn_aiokafka import AioKafka
from tests.compat.txn_confluent import Confluent
from tests.compat.txn_face import Fenced, Read, TxnClient, TxnProducer
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
SHORT_MS = 1_000


@pytest.fixture(scope="module", params=BOTH)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with serving(request.param, tmp_path_factory.mktemp("transactions")) as broker:
        yield broker


@pytest.fixture(scope="module", params=CLIENTS, ids=lambda kind: kind.name)
def client(
    request: pytest.FixtureRequest, served: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TxnClient]:
    made: TxnClient = request.param(served.bootstrap, tmp_path_factory.mktemp("client"))
    yield made
    made.close()


@pytest.fixture
def topic(served: Served, new_name: NewName) -> str:
    return make_topic(served.bootstrap, new_name("txn"), 2)


def _ready(client: TxnClient, transactional_id: str, timeout_ms: int = 60_000) -> TxnProducer:
    producer = client.producer(transactional_id, timeout_ms)
    producer.init()
    return producer


def _wrote(producer: TxnProducer, topic: str, *keys: str, partition: int = 0) -> None:
    producer.begin()
    for key in keys:
        producer.send(topic, key, f"value of {key}", partition)
    producer.flush()


def _wrote_and_committed(producer: TxnProducer, topic: str, key: str) -> None:
    producer.begin()
    producer.send(topic, key, "x")
    producer.commit()


def _keys(found: Read) -> list[str]:
    return [key for key, _ in found.records]


def _settled(client: TxnClient, topic: str, count: int) -> Read:
    """All markers are there: Kafka answers EndTxn before it writes them."""

    def is_settled() -> bool:
        ends = {client.end(topic, committed=committed) for committed in (True, False)}
        return ends == {count}

    wait_until(is_settled, f"{topic} is stable at {count}")
    return client.read(topic)


def test_committed_is_read_and_aborted_is_not(
    client: TxnClient, topic: str, new_name: NewName
) -> None:
    producer = _ready(client, new_name("id"))
    _wrote(producer, topic, "a", "b")
    producer.commit()
    _wrote(producer, topic, "c")
    producer.abort()
    _wrote(producer, topic, "d")
    producer.commit()

    # Two markers and four records lie before the last marker, and readers end behind it.
    committed = _settled(client, topic, 7)
    uncommitted = client.read(topic, committed=False)
    producer.vanish()

    assert committed == Read([(key, f"value of {key}") for key in "abd"], 7)
    assert uncommitted == Read([(key, f"value of {key}") for key in "abcd"], 7)


def test_open_transaction_holds_readers_back(
    client: TxnClient, topic: str, new_name: NewName
) -> None:
    first, second = _ready(client, new_name("id")), _ready(client, new_name("id"))
    _wrote(second, topic, "a")
    second.commit()
    _settled(client, topic, 2)
    _wrote(first, topic, "b")
    _wrote(second, topic, "c")
    second.commit()
    wait_until(lambda: client.end(topic, committed=False) == 5, "the second marker is there")

    held = client.read(topic)
    ends = client.end(topic, committed=True), client.end(topic, committed=False)
    everything = client.read(topic, committed=False)
    first.abort()
    released = _settled(client, topic, 6)
    first.vanish()
    second.vanish()

    assert (held, ends) == (Read([("a", "value of a")], 2), (2, 5))
    assert _keys(everything) == ["a", "b", "c"]
    assert _keys(released) == ["a", "c"]


def test_partitions_of_a_transaction_share_its_fate(
    client: TxnClient, topic: str, new_name: NewName
) -> None:
    producer = _ready(client, new_name("id"))
    for number, ends_well in enumerate((True, False, True)):
        producer.begin()
        for partition in (0, 1):
            producer.send(topic, f"{number}", "x", partition)
        if ends_well:
            producer.commit()
        else:
            producer.abort()

    producer.vanish()
    # Whether the client had sent a record before it aborted is its own affair.
    for partition in (0, 1):
        wait_until(
            lambda each=partition: _keys(client.read(topic, each)) == ["0", "2"],  # type: ignore[misc]
            "both are committed",
        )


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    client: TxnClient, topic: str, new_name: NewName
) -> None:
    producer, group = _ready(client, new_name("id")), new_name("group")
    _wrote(producer, topic, "a")
    producer.send_offset(group, topic, 11)
    producer.abort()
    _settled(client, topic, 2)
    after_abort = client.committed_offset(group, topic)
    _wrote(producer, topic, "b")
    producer.send_offset(group, topic, 12)
    producer.send_offset(group, topic, 13)
    producer.commit()
    _settled(client, topic, 4)

    # The marker of the group's partition may come later than that of the topic.
    wait_until(lambda: client.committed_offset(group, topic) != -1, "the offset is committed")
    found = client.committed_offset(group, topic)
    producer.vanish()

    assert (after_abort, found) == (-1, 13)


def test_second_producer_fences_the_first(client: TxnClient, topic: str, new_name: NewName) -> None:
    name = new_name("id")
    zombie = _ready(client, name)
    _wrote(zombie, topic, "a")
    successor = _ready(client, name)
    _wrote(successor, topic, "b")
    successor.commit()

    with pytest.raises(Fenced):
        zombie.commit()

    found = _settled(client, topic, 4)
    zombie.vanish()
    successor.vanish()
    assert found.records == [("b", "value of b")]


def test_fenced_producer_cannot_write(client: TxnClient, topic: str, new_name: NewName) -> None:
    name = new_name("id")
    zombie = _ready(client, name)
    _wrote(zombie, topic, "a")
    zombie.commit()
    successor = _ready(client, name)
    _wrote(successor, topic, "b")
    successor.commit()

    with pytest.raises(Fenced):
        _wrote_and_committed(zombie, topic, "too late")

    found = _settled(client, topic, 4)
    zombie.vanish()
    successor.vanish()
    assert _keys(found) == ["a", "b"]


def test_transaction_that_takes_too_long_is_aborted(
    client: TxnClient, topic: str, new_name: NewName
) -> None:
    name = new_name("id")
    slow = _ready(client, name, SHORT_MS)
    _wrote(slow, topic, "a")
    wait_until(lambda: client.end(topic, committed=True) == 2, "the broker aborts it")

    with pytest.raises(Exception, match=r".") as refused:
        slow.commit()

    with suppress(Exception):
        slow.vanish()
    successor = _ready(client, name)
    _wrote(successor, topic, "b")
    successor.commit()
    found = _settled(client, topic, 4)
    successor.vanish()
    assert not isinstance(refused.value, AssertionError)
    assert _keys(found) == ["b"]


def test_vanished_producer_is_aborted_by_its_successor(
    client: TxnClient, topic: str, new_name: NewName
) -> None:
    name = new_name("id")
    first = _ready(client, name)
    _wrote(first, topic, "a")
    first.vanish()

    second = _ready(client, name)
    _wrote(second, topic, "b")
    second.commit()

    found = _settled(client, topic, 4)
    second.vanish()
    assert _keys(found) == ["b"]


def test_aborted_tombstone_deletes_nothing_and_a_committed_one_does(
    client: TxnClient, served: Served, new_name: NewName
) -> None:
    topic = make_topic(
        served.bootstrap,
        new_name("compacted"),
        1,
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        min_compaction_lag_ms="0",
        max_compaction_lag_ms="200",
        delete_retention_ms="0",
    )
    producer = _ready(client, new_name("id"))
    _wrote(producer, topic, "kept", "deleted", "changed")
    producer.commit()
    producer.begin()
    producer.send(topic, "kept", None)
    producer.send(topic, "changed", "aborted")
    producer.flush()
    producer.abort()
    producer.begin()
    producer.send(topic, "deleted", None)
    producer.send(topic, "changed", "new")
    producer.flush()
    producer.commit()

    numbers = iter(range(1_000))

    def is_clean() -> bool:
        """Further records roll segments; the cleaner leaves the last one alone."""
        _wrote(producer, topic, f"roll-{next(numbers) % 2}")
        producer.commit()
        left = [
            each for each in client.read(topic, committed=False).records if each[0][:4] != "roll"
        ]
        return sorted(left, key=str) == [("changed", "new"), ("kept", "value of kept")]

    wait_until(is_clean, "the cleaner leaves what is committed", 60.0)
    read = client.read(topic)
    producer.vanish()
    assert {key: value for key, value in read.records if key in ("kept", "changed", "deleted")} == {
        "kept": "value of kept",
        "changed": "new",
    }


@pytest.mark.parametrize("isolation", [True, False], ids=["committed", "uncommitted"])
def test_every_reader_sees_the_same(
    served: Served,
    tmp_path: Path,
    client: TxnClient,
    topic: str,
    new_name: NewName,
    isolation: bool,
) -> None:
    """What one client wrote is read by the Python clients, aborted parts interleaved."""
    one, two = _ready(client, new_name("id")), _ready(client, new_name("id"))
    for number in range(6):
        _wrote(one, topic, f"one-{number}")
        _wrote(two, topic, f"two-{number}")
        if number % 2:
            one.commit()
            two.abort()
        else:
            two.commit()
            one.abort()
    expected = [f"{'one' if number % 2 else 'two'}-{number}" for number in range(6)]
    if not isolation:
        expected = [f"{name}-{number}" for number in range(6) for name in ("one", "two")]
    _settled(client, topic, 24)

    found = {}
    for kind in (Confluent, KafkaPython, AioKafka):
        reader = kind(served.bootstrap, tmp_path)
        found[kind.name] = reader.read(topic, committed=isolation)
        reader.close()
    one.vanish()
    two.vanish()

    assert {name: (_keys(read), read.position) for name, read in found.items()} == dict.fromkeys(
        found, (expected, 24)
    )
