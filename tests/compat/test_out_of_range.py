"""A reader whose place in the log is gone: it starts over at once, in every client.

A consumer is stopped, what it would read next is deleted, and it comes back. librdkafka needs an
empty set of records beside the error; given null it asked again without a pause, for ever.
"""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.compat.clients import kcat
from tests.compat.confluent_admin import AdminClient
from tests.compat.conftest import CreateTopic, NewName
from tests.kit.broker import BrokerProcess, wait_until

# Kafka's own consumer is reset in a tenth of a second; a busy machine takes longer.
SOON_S = 10.0
RECORDS = 30
DELETED_BELOW = 20


@pytest.fixture
def shortened(broker: BrokerProcess, admin: AdminClient, create_topic: CreateTopic) -> str:
    """A topic of 30 records of which the first 20 were deleted."""
    topic = create_topic("shortened")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, key=b"k", value=b"%d" % number)
    assert producer.flush(20) == 0
    shorter = TopicPartition(topic, 0, DELETED_BELOW)
    (done,) = admin.delete_records([shorter]).values()
    assert done.result(20).low_watermark == DELETED_BELOW
    return topic


@pytest.fixture
def lines() -> list[str]:
    """What librdkafka logs."""
    return []


@pytest.fixture
def consumer(
    broker: BrokerProcess, new_name: NewName, lines: list[str], request: pytest.FixtureRequest
) -> Iterator[Consumer]:
    class Lines:
        def log(self, level: int, form: str, *values: object) -> None:
            lines.append(form % values)

    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": new_name("returning"),
        "auto.offset.reset": request.param,
        "enable.auto.commit": False,
    }
    made = Consumer(settings, logger=Lines())
    yield made
    made.close()


def first(consumer: Consumer) -> Message:
    message = wait_until(lambda: consumer.poll(1), "a record or an error comes", SOON_S)
    assert message is not None
    return message


@pytest.mark.parametrize("consumer", ["earliest"], indirect=True)
@pytest.mark.parametrize("place", [0, 19, 500], ids=["start", "just below", "above the end"])
def test_assigned_consumer_outside_of_the_log_starts_at_its_beginning(
    consumer: Consumer, shortened: str, place: int, lines: list[str]
) -> None:
    started_s = time.monotonic()
    consumer.assign([TopicPartition(shortened, 0, place)])

    message = first(consumer)

    assert message.error() is None
    assert message.offset() == DELETED_BELOW
    assert time.monotonic() - started_s < SOON_S
    assert [line for line in lines if "MessageSetSize" in line] == []


@pytest.mark.parametrize("consumer", ["earliest"], indirect=True)
def test_consumer_starts_over_where_its_committed_offset_is_gone(
    consumer: Consumer, shortened: str
) -> None:
    consumer.commit(offsets=[TopicPartition(shortened, 0, 3)], asynchronous=False)
    consumer.subscribe([shortened])

    message = first(consumer)

    assert message.error() is None
    assert message.offset() == DELETED_BELOW


@pytest.mark.parametrize("consumer", ["error"], indirect=True)
def test_consumer_that_must_not_start_over_is_told(consumer: Consumer, shortened: str) -> None:
    consumer.assign([TopicPartition(shortened, 0, 3)])

    error = first(consumer).error()

    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET  # its name in the public docs


@pytest.mark.parametrize("consumer", ["earliest"], indirect=True)
def test_commit_to_a_topic_that_does_not_exist_is_refused(
    consumer: Consumer, shortened: str, new_name: NewName
) -> None:
    nowhere = TopicPartition(new_name("nowhere"), 0, 3)
    here, beyond = TopicPartition(shortened, 0, 25), TopicPartition(shortened, 9, 3)

    with pytest.raises(KafkaException) as refusal:
        consumer.commit(offsets=[here, nowhere, beyond], asynchronous=False)

    assert refusal.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    # What exists was committed nevertheless, in the same request.
    committed = consumer.committed([here, nowhere, beyond], timeout=20)
    assert [each.offset for each in committed] == [25, OFFSET_INVALID, OFFSET_INVALID]


@pytest.mark.usefixtures("needs_kcat")
def test_kcat_starts_over_where_its_offset_is_gone(broker: BrokerProcess, shortened: str) -> None:
    place = ("-b", broker.bootstrap, "-t", shortened, "-o", "3")
    read = kcat("-C", *place, "-e", "-q", "-f", "%o\n", "-X", "auto.offset.reset=earliest")

    assert read.split() == [b"%d" % offset for offset in range(DELETED_BELOW, RECORDS)]
