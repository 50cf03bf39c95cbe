"""The broker stops, or is killed, in the middle of everything, and comes back on the same port.

Nothing that was acknowledged is lost, nothing is there twice, order is kept; topics, settings,
producers and committed offsets are remembered. The clients find their way by themselves.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import aiokafka
import kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition

from tests.compat.clients import Confluent, Record
from tests.compat.confluent_admin import AdminClient, ConfigResource, NewTopic, ResourceType
from tests.compat.members import MEMBERS, Got, Member, joined, read_until
from tests.kit import kafka_python
from tests.kit.broker import BrokerProcess, wait_until

TOPIC = "ledger"
WAIT_S = 60

Interrupt = Callable[[BrokerProcess], None]


def stop_and_start(broker: BrokerProcess) -> None:
    broker.stop()
    broker.start()


def kill_and_start(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


INTERRUPTS = pytest.mark.parametrize("interrupt", [stop_and_start, kill_and_start])


def admin_of(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def check_exactly_once(broker: BrokerProcess, count: int) -> None:
    client = Confluent(broker.bootstrap)
    seen = client.consume(TOPIC, count)
    assert [each.record.value for each in seen] == [b"%d" % i for i in range(count)]
    assert client.end_offsets(TOPIC) == (0, count)


def _answered(producer: Producer, acknowledged: list[int | None], count: int) -> bool:
    producer.poll(0.01)
    return len(acknowledged) >= count


def produce_across(broker: BrokerProcess, interrupt: Interrupt, times: int, each: int) -> int:
    """librdkafka's idempotent producer, interrupted with batches on their way; the total."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "batch.num.messages": 10,
            "linger.ms": 1,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    acknowledged: list[int | None] = []
    failures: list[object] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(error)
        acknowledged.append(message.offset())  # type: ignore[attr-defined]

    total = each * (times + 1)
    for i in range(total):
        producer.produce(TOPIC, value=b"%d" % i, partition=0, on_delivery=delivered)
        if i % each == each - 1 and i < total - 1:
            # Some batches have been answered, most are still on their way.
            answered = len(acknowledged) + 1
            wait_until(partial(_answered, producer, acknowledged, answered), "answers came")
            interrupt(broker)
    assert producer.flush(WAIT_S) == 0
    assert not failures
    assert acknowledged == list(range(total))
    return total


@INTERRUPTS
def test_idempotent_producer_loses_and_doubles_nothing(
    own_broker: BrokerProcess, interrupt: Interrupt
) -> None:
    total = produce_across(own_broker, interrupt, times=2, each=2000)

    check_exactly_once(own_broker, total)


@pytest.mark.slow
@INTERRUPTS
def test_idempotent_producer_survives_twenty_interruptions(
    own_broker: BrokerProcess, interrupt: Interrupt
) -> None:
    total = produce_across(own_broker, interrupt, times=20, each=2000)

    check_exactly_once(own_broker, total)


def test_kafka_python_producer_goes_on_after_a_kill(own_broker: BrokerProcess) -> None:
    with kafka_python.producer(
        own_broker.bootstrap,
        enable_idempotence=True,
        batch_size=200,
        retry_backoff_ms=20,
        reconnect_backoff_max_ms=100,
    ) as producer:
        futures = [producer.send(TOPIC, b"%d" % i, partition=0) for i in range(500)]
        futures[0].get(WAIT_S)
        kill_and_start(own_broker)
        futures += [producer.send(TOPIC, b"%d" % i, partition=0) for i in range(500, 1000)]
        offsets = [future.get(WAIT_S).offset for future in futures]

    assert offsets == list(range(1000))
    check_exactly_once(own_broker, 1000)


def test_aiokafka_producer_goes_on_after_a_kill(own_broker: BrokerProcess) -> None:
    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=own_broker.bootstrap, enable_idempotence=True, max_batch_size=200
        )
        await producer.start()
        try:
            futures = [await producer.send(TOPIC, b"%d" % i, partition=0) for i in range(500)]
            await futures[0]
            await asyncio.to_thread(kill_and_start, own_broker)
            more = range(500, 1000)
            futures += [await producer.send(TOPIC, b"%d" % i, partition=0) for i in more]
            await asyncio.wait_for(asyncio.gather(*futures), WAIT_S)
        finally:
            await producer.stop()

    asyncio.run(produce())

    check_exactly_once(own_broker, 1000)


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "interrupt", [pytest.param(stop_and_start, marks=pytest.mark.slow), kill_and_start]
)
def test_group_member_reads_on_after_the_broker_came_back(
    own_broker: BrokerProcess, kind: type[Member], interrupt: Interrupt
) -> None:
    client = Confluent(own_broker.bootstrap)
    client.produce(TOPIC, [Record(b"%d" % i) for i in range(20)])

    with joined(kind, own_broker.bootstrap, "group", TOPIC) as member:
        got = read_until([member], 20)
        member.commit()
        interrupt(own_broker)
        client.produce(TOPIC, [Record(b"%d" % i) for i in range(20, 40)])
        got += read_until([member], 20)

    assert [each.offset for each in got] == list(range(40))


@INTERRUPTS
def test_committed_offsets_topics_and_settings_are_remembered(
    own_broker: BrokerProcess, interrupt: Interrupt
) -> None:
    settings = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    admin = admin_of(own_broker)
    asked = NewTopic("kept", 3, 1, config=settings)
    admin.create_topics([asked, NewTopic("gone", 1, 1)])["gone"].result(WAIT_S)
    admin.delete_topics(["gone"])["gone"].result(WAIT_S)
    wanted = ConsumerGroupTopicPartitions(
        "group", [TopicPartition("kept", number, number * 7) for number in range(3)]
    )
    admin.alter_consumer_group_offsets([wanted])["group"].result(WAIT_S)
    topic_id = _topic_id(own_broker, "kept")

    interrupt(own_broker)

    admin = admin_of(own_broker)
    topics = admin.list_topics(timeout=WAIT_S).topics
    resource = ConfigResource(ResourceType.TOPIC, "kept")
    entries = admin.describe_configs([resource])[resource].result(WAIT_S)
    request = ConsumerGroupTopicPartitions("group")
    offsets = admin.list_consumer_group_offsets([request])["group"].result(WAIT_S)
    assert len(topics["kept"].partitions) == 3
    assert "gone" not in topics
    assert {name: entries[name].value for name in settings} == settings
    found = {each.partition: each.offset for each in offsets.topic_partitions}
    assert found == {0: 0, 1: 7, 2: 14}
    assert _topic_id(own_broker, "kept") == topic_id


def _topic_id(broker: BrokerProcess, topic: str) -> str:
    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        [described] = client.describe_topics([topic])
    return str(described["topic_id"])


def test_frozen_broker_is_waited_for(own_broker: BrokerProcess) -> None:
    client = Confluent(own_broker.bootstrap)
    client.produce(TOPIC, [Record(b"0")])
    producer = Producer({"bootstrap.servers": own_broker.bootstrap, "enable.idempotence": True})
    producer.list_topics(TOPIC, timeout=WAIT_S)

    own_broker.pause()
    producer.produce(TOPIC, value=b"1", partition=0)
    left = producer.flush(0.5)
    own_broker.resume()
    assert producer.flush(WAIT_S) == 0

    assert left == 1
    check_exactly_once(own_broker, 2)


def test_restarted_reader_goes_on_from_its_commit_after_a_kill(own_broker: BrokerProcess) -> None:
    Confluent(own_broker.bootstrap).produce(TOPIC, [Record(b"%d" % i) for i in range(10)])
    got: list[Got] = []
    for _ in range(2):
        with joined(MEMBERS[0], own_broker.bootstrap, "group", TOPIC) as member:
            got += read_until([member], 10)
            member.commit()
        kill_and_start(own_broker)
        Confluent(own_broker.bootstrap).produce(TOPIC, [Record(b"%d" % i) for i in range(10)])

    assert [each.offset for each in got] == list(range(20))
