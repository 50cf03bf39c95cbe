"""What consumers do when groups may hold no more: they wait where that helps, and say why else."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.kit.broker import BrokerProcess, wait_until

TOPIC = "t"
# Members are small; a long name makes a group large enough to fill what there is.
LONG = "x" * 3000


@contextlib.contextmanager
def broker_with(directory: Path, **settings: str) -> Iterator[BrokerProcess]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    given |= {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
    with BrokerProcess(directory, given) as process:
        producer = Producer({"bootstrap.servers": process.bootstrap})
        producer.produce(TOPIC, b"hello")
        producer.flush()
        yield process


@contextlib.contextmanager
def member(broker: BrokerProcess, group: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    try:
        yield consumer
    finally:
        consumer.close()


def next_of(consumer: Consumer) -> Message:
    found = wait_until(lambda: consumer.poll(0.1), "the consumer has something to say")
    assert found is not None
    return found


def refusals(broker: BrokerProcess) -> int:
    return broker.log_text.count("group refused")


@pytest.mark.slow
def test_consumer_waits_for_room_and_goes_on_by_itself(tmp_path: Path) -> None:
    with broker_with(tmp_path, ledgerstone_groups_max_bytes="11000") as broker:
        with member(broker, "first" + LONG) as first:
            assert next_of(first).value() == b"hello"
            with member(broker, "second" + LONG) as second:
                wait_until(lambda: second.poll(0.1) or refusals(broker), "it was refused")
                assert refusals(broker) == 1
                first.close()
                assert next_of(second).value() == b"hello"
        assert refusals(broker) == 1, "it tried again and again, and one line tells it"


@pytest.mark.slow
def test_consumer_of_a_group_that_is_too_large_says_so(tmp_path: Path) -> None:
    with (
        broker_with(tmp_path, ledgerstone_group_max_bytes="3000") as broker,
        member(broker, LONG) as consumer,
    ):
        error = next_of(consumer).error()
        assert error is not None
        assert error.code() == KafkaError.GROUP_MAX_SIZE_REACHED
