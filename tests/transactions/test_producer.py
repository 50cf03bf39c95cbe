"""Our transactional producer against a broker: commits, aborts, fences, offsets; both protocols."""

from collections.abc import Callable

import pytest

from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import CommittedOffset, committed_offsets
from ledgerstone.client.producer import NewRecord, ProducerConfig
from ledgerstone.client.transactions import TransactionalProducer, end_prepared
from ledgerstone.client.txn_errors import MustAbort, MustClose
from ledgerstone.client.txn_session import TV1, TV2, TxnProtocol
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.records.batch import Codec
from ledgerstone.types import TopicPartition
from tests.transactions.conftest import MakeTopic, NewName
from tests.transactions.kit import committed, visible

MakeProducer = Callable[..., TransactionalProducer]


@pytest.fixture(params=[TV1, TV2], ids=["tv1", "tv2"])
def make_producer(request: pytest.FixtureRequest, new_name: NewName) -> MakeProducer:
    protocol: TxnProtocol = request.param

    def make(
        client: Client, name: str, config: ProducerConfig | None = None
    ) -> TransactionalProducer:
        producer = TransactionalProducer(client, name, config)
        producer.transactions.start()
        assert producer.transactions.session.protocol is TV2, "the broker offers version 2"
        # A broker serves clients of version 1 whatever its own version is.
        producer.transactions.session.protocol = protocol
        return producer

    return make


def test_a_reader_sees_committed_records_only(
    client: Client, make_topic: MakeTopic, new_name: NewName, make_producer: MakeProducer
) -> None:
    topic = make_topic(partitions=2)
    producer = make_producer(client, new_name("id"), ProducerConfig(codec=Codec.ZSTD))

    for number in range(6):
        producer.begin()
        producer.send([NewRecord(topic, b"%d" % number, b"v", partition=n) for n in range(2)])
        producer.send([NewRecord(topic, b"%d" % number, b"w", partition=1)])
        (producer.commit if number % 3 else producer.abort)()

    assert committed(client, topic) == [
        *((b"%d" % n, b"v") for n in (1, 2, 4, 5)),
        *((b"%d" % n, value) for n in (1, 2, 4, 5) for value in (b"v", b"w")),
    ]


def test_open_records_are_not_visible_until_the_commit(
    client: Client, make_topic: MakeTopic, new_name: NewName, make_producer: MakeProducer
) -> None:
    topic = make_topic()
    producer = make_producer(client, new_name("id"))

    with producer.begin():
        producer.send([NewRecord(topic, b"k", b"v")])
        before = visible(client, topic)

    assert before == []
    assert committed(client, topic) == [(b"k", b"v")]


def test_an_exception_in_the_context_aborts(
    client: Client, make_topic: MakeTopic, new_name: NewName, make_producer: MakeProducer
) -> None:
    topic = make_topic()
    producer = make_producer(client, new_name("id"))

    def fail() -> None:
        with producer.begin():
            producer.send([NewRecord(topic, b"k", b"v")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with producer.begin():
        producer.send([NewRecord(topic, b"k", b"w")])

    assert committed(client, topic) == [(b"k", b"w")]


def test_offsets_and_records_have_one_fate(
    client: Client, make_topic: MakeTopic, new_name: NewName, make_producer: MakeProducer
) -> None:
    topic, group = make_topic(), new_name("group")
    partition = TopicPartition(topic, 0)
    producer = make_producer(client, new_name("id"))
    seen = []

    for number, end in enumerate((producer.commit, producer.abort, producer.commit)):
        producer.begin()
        producer.send([NewRecord(topic, b"k", b"%d" % number)])
        producer.send_offsets(group, {partition: CommittedOffset(number, metadata=f"m{number}")})
        end()
        found = committed_offsets(client, group, [partition])[partition]
        seen.append((found.offset, found.metadata))

    assert seen == [(0, "m0"), (0, "m0"), (2, "m2")]
    assert committed(client, topic) == [(b"k", b"0"), (b"k", b"2")]


def test_a_transaction_without_records_asks_nobody(
    client: Client, make_topic: MakeTopic, new_name: NewName, make_producer: MakeProducer
) -> None:
    topic = make_topic()
    producer = make_producer(client, new_name("id"))
    before = producer.transactions.identity

    for end in (producer.commit, producer.abort):
        producer.begin()
        end()
    assert producer.transactions.identity == before
    with producer.begin():
        producer.send([NewRecord(topic, b"k", b"v")])

    assert committed(client, topic) == [(b"k", b"v")]


def test_a_newer_producer_fences_the_older(
    client: Client, other: Client, make_topic: MakeTopic, new_name: NewName,
    make_producer: MakeProducer,
) -> None:  # fmt: skip
    topic, name = make_topic(), new_name("id")
    older = make_producer(client, name)
    older.begin()
    older.send([NewRecord(topic, b"k", b"older")])

    newer = make_producer(other, name)

    # A leader cannot tell a fenced producer from one whose transaction has timed out.
    with pytest.raises(MustAbort):
        older.send([NewRecord(topic, b"k", b"older still")])
    with pytest.raises(MustClose) as caught:
        older.abort()
    assert caught.value.code == ErrorCode.PRODUCER_FENCED
    with pytest.raises(MustClose):
        older.begin()
    with newer.begin():
        newer.send([NewRecord(topic, b"k", b"newer")])
    assert committed(client, topic) == [(b"k", b"newer")]


def test_a_fenced_producer_commits_nothing(
    client: Client, other: Client, make_topic: MakeTopic, new_name: NewName,
    make_producer: MakeProducer,
) -> None:  # fmt: skip
    topic, name = make_topic(), new_name("id")
    older = make_producer(client, name)
    older.begin()
    older.send([NewRecord(topic, b"k", b"older")])
    make_producer(other, name)

    with pytest.raises(MustClose):
        older.commit()

    assert committed(client, topic) == []


def test_after_a_refused_record_the_producer_aborts_and_goes_on(
    client: Client, make_topic: MakeTopic, new_name: NewName, make_producer: MakeProducer
) -> None:
    topic = make_topic()
    producer = make_producer(client, new_name("id"))
    before = producer.transactions.identity
    producer.begin()
    producer.send([NewRecord(topic, b"k", b"lost")])

    with pytest.raises(MustAbort, match="MESSAGE_TOO_LARGE"):
        producer.send([NewRecord(topic, b"k", bytes(2 << 20))])
    with pytest.raises(MustAbort):
        producer.commit()
    producer.abort()
    with producer.begin():
        producer.send([NewRecord(topic, b"k", b"kept")])

    assert producer.transactions.identity > before, "unknown sequences need another epoch"
    assert committed(client, topic) == [(b"k", b"kept")]


def test_a_transaction_is_ended_by_another_process_and_again(
    client: Client, other: Client, make_topic: MakeTopic, new_name: NewName,
    make_producer: MakeProducer,
) -> None:  # fmt: skip
    topic, name = make_topic(), new_name("id")
    producer = make_producer(client, name)
    producer.begin()
    producer.send([NewRecord(topic, b"k", b"v")])
    prepared = producer.transactions.prepared()

    end_prepared(other, prepared, commit=True)
    end_prepared(other, prepared, commit=True)

    assert committed(client, topic) == [(b"k", b"v")]
    with pytest.raises(MustClose):
        end_prepared(other, prepared, commit=False)


def test_many_transactions_keep_their_sequences(
    client: Client, make_topic: MakeTopic, new_name: NewName, make_producer: MakeProducer
) -> None:
    topic = make_topic()
    producer = make_producer(client, new_name("id"))

    for number in range(12):
        with producer.begin():
            for part in range(3):
                producer.send([NewRecord(topic, b"%d" % number, b"%d" % part)])

    assert committed(client, topic) == [(b"%d" % n, b"%d" % p) for n in range(12) for p in range(3)]
