"""What the broker refuses, with Kafka's code, as each client reports it."""

import asyncio
from functools import partial
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaException, Producer
from kafka.admin import NewTopic as PythonNewTopic
from kafka.errors import InvalidConfigurationError, KafkaTimeoutError

from tests.compat.clients import CLIENTS, Client, Confluent, Record, Refused
from tests.compat.confluent_admin import AdminClient, NewTopic
from tests.compat.conftest import CreateTopic, NewName
from tests.kit import kafka_python
from tests.kit.broker import BrokerProcess, wait_until

UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
INVALID_TIMESTAMP = 32
INVALID_RECORD = 87
# librdkafka's own code for a record whose batch was refused because of another record.
DIFFERENT_RECORD = -138
# aiokafka has no name for INVALID_RECORD and calls it unknown.
UNKNOWN_TO_AIOKAFKA = -1


def test_record_without_a_key_is_refused_on_a_compacted_topic(
    client: Client, create_topic: CreateTopic
) -> None:
    topic = create_topic(cleanup_policy="compact")

    with pytest.raises(Refused) as refusal:
        client.produce(topic, [Record(b"value without a key")])

    known = UNKNOWN_TO_AIOKAFKA if client.name == "aiokafka" else INVALID_RECORD
    assert refusal.value.code == known
    assert client.end_offsets(topic) == (0, 0)


def test_each_keyless_record_of_a_batch_is_named_and_the_others_are_not_blamed(
    broker: BrokerProcess, create_topic: CreateTopic
) -> None:
    topic = create_topic(cleanup_policy="compact")
    # One batch, however slow the machine is: `flush` does not wait for it.
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 10_000})
    codes: dict[int, int] = {}

    def refused(i: int, error: Any, _: object) -> None:
        codes[i] = error.code()

    for i in range(100):
        key = None if i % 10 == 0 else b"k"
        producer.produce(topic, value=b"v", key=key, partition=0, on_delivery=partial(refused, i))
    assert producer.flush(20) == 0

    assert codes == {i: INVALID_RECORD if i % 10 == 0 else DIFFERENT_RECORD for i in range(100)}


def test_batch_above_max_message_bytes_is_refused(
    client: Client, create_topic: CreateTopic
) -> None:
    topic = create_topic(max_message_bytes="1000")

    with pytest.raises(Refused) as refusal:
        client.produce(topic, [Record(b"x" * 2000)])

    assert refusal.value.code == MESSAGE_TOO_LARGE
    client.produce(topic, [Record(b"x" * 500)])
    assert client.end_offsets(topic) == (0, 1)


def test_timestamp_far_in_the_future_is_refused(client: Client, create_topic: CreateTopic) -> None:
    topic = create_topic(message_timestamp_after_max_ms="3600000")
    year_2100_ms = 4_102_444_800_000

    with pytest.raises(Refused) as refusal:
        client.produce(topic, [Record(b"too early", None, (), year_2100_ms)])

    assert refusal.value.code == INVALID_TIMESTAMP


def test_writing_to_the_offsets_topic_is_refused(broker: BrokerProcess, new_name: NewName) -> None:
    with kafka_python.consumer(broker.bootstrap, group_id=new_name("group")) as consumer:
        consumer.committed(kafka.TopicPartition("anything", 0))

    with pytest.raises(Refused) as refusal:
        Confluent(broker.bootstrap).produce("__consumer_offsets", [Record(b"v", b"k")])

    assert refusal.value.code == INVALID_TOPIC


@pytest.mark.parametrize("name", ["not allowed", "a/b", "..", "x" * 250, "ü"])
def test_topic_with_an_illegal_name_is_refused_when_created(admin: AdminClient, name: str) -> None:
    with pytest.raises(KafkaException) as refusal:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)

    assert refusal.value.args[0].code() == INVALID_TOPIC


def test_topic_with_an_illegal_name_is_refused_when_written_to(broker: BrokerProcess) -> None:
    with pytest.raises(Refused) as refusal:
        Confluent(broker.bootstrap).produce("not allowed", [Record(b"v")])

    assert refusal.value.code == INVALID_TOPIC


@pytest.mark.parametrize(
    ("config", "partitions", "replication_factor", "code"),
    [
        ({"cleanup.policy": "shred"}, 1, 1, INVALID_CONFIG),
        ({"retention.ms": "soon"}, 1, 1, INVALID_CONFIG),
        ({"segment.bytes": "-5"}, 1, 1, INVALID_CONFIG),
        ({"no.such.setting": "1"}, 1, 1, INVALID_CONFIG),
        ({}, 0, 1, INVALID_PARTITIONS),
        ({}, 1, 3, INVALID_REPLICATION_FACTOR),
    ],
)
def test_topic_that_cannot_be_made_is_refused_with_the_reason(
    admin: AdminClient,
    new_name: NewName,
    config: dict[str, str],
    partitions: int,
    replication_factor: int,
    code: int,
) -> None:
    name = new_name("bad")
    asked = NewTopic(name, partitions, replication_factor, config=config)

    with pytest.raises(KafkaException) as refusal:
        admin.create_topics([asked])[name].result(20)

    assert refusal.value.args[0].code() == code
    assert refusal.value.args[0].str()
    assert name not in admin.list_topics(timeout=20).topics


def test_bad_config_is_refused_through_the_other_admin_clients(
    broker: BrokerProcess, new_name: NewName
) -> None:
    bad = {"cleanup.policy": "shred"}

    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        asked = PythonNewTopic(new_name("bad"), 1, 1, topic_configs=bad)
        with pytest.raises(InvalidConfigurationError):
            client.create_topics([asked])

    answer = asyncio.run(_create_with_aiokafka(broker.bootstrap, new_name("bad"), bad))
    assert answer.topic_errors[0][1] == INVALID_CONFIG


async def _create_with_aiokafka(bootstrap: str, name: str, config: dict[str, str]) -> Any:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        return await client.create_topics([AioNewTopic(name, 1, 1, topic_configs=config)])
    finally:
        await client.close()


def test_existing_topic_is_not_created_again(admin: AdminClient, topic: str) -> None:
    with pytest.raises(KafkaException) as refusal:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)

    assert refusal.value.args[0].code() == TOPIC_ALREADY_EXISTS


def test_deleting_a_topic_that_is_not_there_is_refused(
    admin: AdminClient, new_name: NewName
) -> None:
    name = new_name("absent")

    with pytest.raises(KafkaException) as refusal:
        admin.delete_topics([name])[name].result(20)

    assert refusal.value.args[0].code() == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.name)
def test_writing_to_an_unknown_topic_creates_it(
    broker: BrokerProcess, admin: AdminClient, new_name: NewName, kind: type[Client]
) -> None:
    name = new_name("auto")

    kind(broker.bootstrap).produce(name, [Record(b"first")])

    assert len(admin.list_topics(name, timeout=20).topics[name].partitions) == 1


def test_unknown_topic_stays_unknown_where_auto_creation_is_off(own_broker: BrokerProcess) -> None:
    own_broker.stop()
    own_broker.settings["auto.create.topics.enable"] = "false"
    own_broker.start()

    with (
        kafka_python.producer(own_broker.bootstrap, max_block_ms=500) as producer,
        pytest.raises(KafkaTimeoutError),
    ):
        producer.send("auto", b"first")

    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap, "log_level": 0})
    assert "auto" not in admin.list_topics(timeout=20).topics


def test_offset_beyond_the_end_resets_as_the_reader_asked(
    broker: BrokerProcess, topic: str
) -> None:
    Confluent(broker.bootstrap).produce(topic, [Record(b"%d" % i) for i in range(5)])
    partition = kafka.TopicPartition(topic, 0)

    with kafka_python.consumer(
        broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    ) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 1000)
        first = next(consumer)

    assert first.offset == 0


def test_aiokafka_reader_without_a_reset_rule_gets_the_error(
    broker: BrokerProcess, topic: str
) -> None:
    async def read() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, auto_offset_reset="none"
        )
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 1000)
            await asyncio.wait_for(consumer.getone(), 20)
        finally:
            await consumer.stop()

    with pytest.raises(aiokafka.errors.OffsetOutOfRangeError):
        asyncio.run(read())


def test_error_with_acks_0_closes_the_connection_and_nothing_is_kept(
    broker: BrokerProcess, create_topic: CreateTopic
) -> None:
    topic = create_topic(max_message_bytes="1000")
    client = Confluent(broker.bootstrap)
    seen_before = broker.log_text.count("acks=0 and error 10")

    client.produce(topic, [Record(b"x" * 2000)], acks=0)

    wait_until(
        lambda: broker.log_text.count("acks=0 and error 10") > seen_before, "the broker noticed"
    )
    assert client.end_offsets(topic) == (0, 0)
