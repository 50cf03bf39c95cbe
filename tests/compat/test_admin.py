"""Admin calls of the clients: topics, partitions, settings, records, the cluster itself."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiokafka
import kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType as PythonConfigResourceType
from kafka.admin import OffsetSpec as PythonOffsetSpec

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from tests.compat.clients import Client, Confluent, Record, Refused
from tests.compat.confluent_admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from tests.compat.conftest import CreateTopic, NewName
from tests.compat.wire import ask
from tests.kit import kafka_python
from tests.kit.broker import BrokerProcess

WAIT_S = 20
UNSUPPORTED_VERSION = 35
LOG_DIR_NOT_FOUND = 57
MESSAGE_TOO_LARGE = 10
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_CONFIG = 40
INVALID_REQUEST = 42
ELECTION_NOT_NEEDED = 84
NO_REASSIGNMENT_IN_PROGRESS = 85

T = TypeVar("T")


def topic_setting(admin: AdminClient, topic: str, name: str) -> ConfigEntry:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(WAIT_S)
    entry: ConfigEntry = entries[name]
    return entry


def change(admin: AdminClient, topic: str, name: str, value: str, how: AlterConfigOpType) -> None:
    entry = ConfigEntry(name, value, incremental_operation=how)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def with_aiokafka(broker: BrokerProcess, call: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
    async def run() -> T:
        client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await client.start()
        try:
            return await asyncio.wait_for(call(client), WAIT_S)
        finally:
            await client.close()

    return asyncio.run(run())


def test_created_topic_is_described_and_listed(
    admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=3)

    listed = admin.list_topics(timeout=WAIT_S).topics
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(WAIT_S)

    assert len(listed[topic].partitions) == 3
    assert [each.id for each in described.partitions] == [0, 1, 2]
    assert [each.leader.id for each in described.partitions] == [1, 1, 1]
    assert described.topic_id is not None
    assert not described.is_internal


def test_deleted_topic_is_gone_and_its_successor_is_empty(
    broker: BrokerProcess, admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    Confluent(broker.bootstrap).produce(topic, [Record(b"old")] * 5)

    admin.delete_topics([topic])[topic].result(WAIT_S)
    gone = topic not in admin.list_topics(timeout=WAIT_S).topics
    offsets = Confluent(broker.bootstrap).produce(topic, [Record(b"new")])

    assert gone
    assert offsets == [0]


def test_partitions_are_added_and_never_taken_away(
    admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=2)

    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WAIT_S)
    with pytest.raises(KafkaException):
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(WAIT_S)

    assert len(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 5


def test_setting_is_changed_seen_and_taken_back(admin: AdminClient, topic: str) -> None:
    change(admin, topic, "retention.ms", "5000", AlterConfigOpType.SET)
    changed = topic_setting(admin, topic, "retention.ms")

    change(admin, topic, "retention.ms", "", AlterConfigOpType.DELETE)
    default = topic_setting(admin, topic, "retention.ms")

    assert changed.value == "5000"
    assert ConfigSource(changed.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert (default.value, default.is_default) == ("604800000", True)


def test_list_setting_is_appended_to_and_subtracted_from(admin: AdminClient, topic: str) -> None:
    change(admin, topic, "cleanup.policy", "compact", AlterConfigOpType.APPEND)
    both = topic_setting(admin, topic, "cleanup.policy").value
    change(admin, topic, "cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    one = topic_setting(admin, topic, "cleanup.policy").value

    assert both == "delete,compact"
    assert one == "compact"


def test_append_is_refused_where_the_setting_is_no_list(admin: AdminClient, topic: str) -> None:
    with pytest.raises(KafkaException) as refusal:
        change(admin, topic, "retention.ms", "5", AlterConfigOpType.APPEND)

    assert refusal.value.args[0].code() in (INVALID_CONFIG, INVALID_REQUEST)


def test_bad_value_is_refused_and_the_old_one_stays(admin: AdminClient, topic: str) -> None:
    with pytest.raises(KafkaException) as refusal:
        change(admin, topic, "retention.ms", "soon", AlterConfigOpType.SET)

    assert refusal.value.args[0].code() == INVALID_CONFIG
    assert topic_setting(admin, topic, "retention.ms").value == "604800000"


def test_changed_limit_holds_at_once(broker: BrokerProcess, admin: AdminClient, topic: str) -> None:
    client = Confluent(broker.bootstrap)
    client.produce(topic, [Record(b"x" * 5000)])

    change(admin, topic, "max.message.bytes", "1000", AlterConfigOpType.SET)

    with pytest.raises(Refused) as refusal:
        client.produce(topic, [Record(b"x" * 5000)])
    assert refusal.value.code == MESSAGE_TOO_LARGE


def test_records_below_an_offset_are_deleted(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    client = Confluent(broker.bootstrap)
    client.produce(topic, [Record(b"%d" % i) for i in range(10)])

    asked = TopicPartition(topic, 0, 4)
    result = admin.delete_records([asked])[asked].result(WAIT_S)

    assert result.low_watermark == 4
    assert client.end_offsets(topic) == (4, 10)
    assert [each.offset for each in client.consume(topic, 6, offset=4)] == list(range(4, 10))


def test_largest_timestamp_has_the_offset_of_its_record(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    times = [1_767_225_600_000 + shift for shift in (10, 500, 20, 30)]
    client = Confluent(broker.bootstrap)
    for at_ms in times:
        client.produce(topic, [Record(b"v", None, (), at_ms)])

    asked = TopicPartition(topic, 0)
    spec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call] # It has no annotations.
    found = admin.list_offsets({asked: spec})[asked].result(WAIT_S)

    assert (found.offset, found.timestamp) == (1, times[1])


def test_cluster_is_described(broker: BrokerProcess, admin: AdminClient) -> None:
    described = admin.describe_cluster().result(WAIT_S)

    assert described.cluster_id
    assert [(node.id, f"{node.host}:{node.port}") for node in described.nodes] == [
        (1, broker.bootstrap)
    ]
    assert described.controller.id == 1


def test_electing_the_leader_that_leads_already_is_not_needed(
    admin: AdminClient, topic: str
) -> None:
    asked = TopicPartition(topic, 0)

    outcome = admin.elect_leaders(ElectionType.PREFERRED, [asked]).result(WAIT_S)

    assert [error.code() for error in outcome.values()] == [ELECTION_NOT_NEEDED]


def test_broker_settings_are_shown_without_secrets_and_with_their_source(
    admin: AdminClient,
) -> None:
    resource = ConfigResource(ResourceType.BROKER, "1")

    entries = admin.describe_configs([resource])[resource].result(WAIT_S)

    assert entries["group.initial.rebalance.delay.ms"].value == "0"
    source = ConfigSource(entries["group.initial.rebalance.delay.ms"].source)
    assert source is ConfigSource.STATIC_BROKER_CONFIG
    assert all(entry.value is None for entry in entries.values() if entry.is_sensitive)


def test_kafka_python_sees_log_directories_quorum_and_features(
    broker: BrokerProcess, topic: str
) -> None:
    Confluent(broker.bootstrap).produce(topic, [Record(b"x" * 1000)])

    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        [of_broker] = client.describe_log_dirs()
        quorum = client.describe_metadata_quorum()
        features = client.describe_features()

    [directory] = of_broker["log_dirs"]
    sizes = {each["name"]: each["partitions"][0]["partition_size"] for each in directory["topics"]}
    assert directory["log_dir"] == str(broker.data)
    assert sizes[topic] > 1000
    assert quorum["topics"][0]["partitions"][0]["leader_id"] == 1
    assert "metadata.version" in str(features)


def test_kafka_python_appends_to_a_list_setting_and_resets_it(
    broker: BrokerProcess, topic: str
) -> None:
    def resource(**configs: Any) -> PythonConfigResource:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        return PythonConfigResource(PythonConfigResourceType.TOPIC, topic, configs=named)

    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        client.alter_configs([resource(cleanup_policy=("APPEND", "compact"))])
        appended = client.describe_configs([resource()], config_filter="all")
        client.reset_configs([resource(cleanup_policy=None)])
        reset = client.describe_configs([resource()], config_filter="all")

    assert appended["topic"][topic]["cleanup.policy"]["value"] == "delete,compact"
    assert reset["topic"][topic]["cleanup.policy"]["value"] == "delete"


def test_kafka_python_asks_for_every_kind_of_offset(broker: BrokerProcess, topic: str) -> None:
    Confluent(broker.bootstrap).produce(topic, [Record(b"%d" % i) for i in range(3)])
    partition = kafka.TopicPartition(topic, 0)

    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        found = {
            spec.name: client.list_partition_offsets({partition: spec})[partition].offset
            for spec in PythonOffsetSpec
        }

    # Nothing is tiered, so nothing is the latest that was.
    expected = {"LATEST": 3, "EARLIEST": 0, "EARLIEST_LOCAL": 0, "LATEST_TIERED": -1}
    assert found.pop("MAX_TIMESTAMP") in range(3)
    assert found == expected


@pytest.mark.parametrize(
    ("timestamp", "version", "offset", "code"),
    [
        # The earliest offset that still has to be tiered: none, and only version 11 may ask.
        (-6, 11, -1, ErrorCode.NONE),
        (-6, 10, -1, UNSUPPORTED_VERSION),
        (-3, 6, -1, UNSUPPORTED_VERSION),
        (-7, 11, -1, UNSUPPORTED_VERSION),
        (-2, 1, 0, ErrorCode.NONE),
    ],
)
def test_offset_by_a_special_timestamp_depends_on_the_version(
    broker: BrokerProcess, topic: str, timestamp: int, version: int, offset: int, code: int
) -> None:
    Confluent(broker.bootstrap).produce(topic, [Record(b"v")])
    asked = ListOffsetsRequestPartition(timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequestTopic(topic, [asked])])

    answer = ask(broker.bootstrap, request, version)

    assert isinstance(answer, ListOffsetsResponse)
    [found] = answer.topics[0].partitions
    assert (found.offset, found.error_code) == (offset, code)


def test_kafka_python_reassigns_nothing_on_a_single_broker(
    broker: BrokerProcess, topic: str
) -> None:
    partition = kafka.TopicPartition(topic, 0)

    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        same = client.alter_partition_reassignments({partition: [1]})
        other = client.alter_partition_reassignments({partition: [1, 2]})
        cancelled = client.alter_partition_reassignments({partition: None})
        under_way = client.list_partition_reassignments()

    assert same == {partition: None}
    assert other[partition].errno == INVALID_REPLICA_ASSIGNMENT
    assert cancelled[partition].errno == NO_REASSIGNMENT_IN_PROGRESS
    assert under_way == {}


def test_kafka_python_moves_no_replica_between_directories(
    broker: BrokerProcess, topic: str
) -> None:
    replica = kafka.structs.TopicPartitionReplica(topic, 0, 1)

    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        here = client.alter_replica_log_dirs({replica: str(broker.data)})
        elsewhere = client.alter_replica_log_dirs({replica: "/somewhere/else"})

    assert here[replica].errno == 0
    assert elsewhere[replica].errno == LOG_DIR_NOT_FOUND


def test_kafka_python_lists_what_can_have_settings(broker: BrokerProcess, topic: str) -> None:
    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        everything = client.list_config_resources()
        topics = client.list_config_resources([PythonConfigResourceType.TOPIC])

    assert everything["broker"] == ["1"]
    assert topic in everything["topic"]
    assert list(topics) == ["topic"]


def test_kafka_python_sees_the_producers_of_a_partition(broker: BrokerProcess, topic: str) -> None:
    with kafka_python.producer(broker.bootstrap, enable_idempotence=True) as producer:
        producer.send(topic, b"v", partition=0).get(WAIT_S)

    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        described = client.describe_producers([kafka.TopicPartition(topic, 0)])

    assert "producer_id" in str(described)


def test_aiokafka_creates_grows_empties_and_deletes_a_topic(
    broker: BrokerProcess, new_name: NewName
) -> None:
    topic = new_name("aio")
    partition = aiokafka.TopicPartition(topic, 0)
    with_aiokafka(broker, lambda admin: admin.create_topics([AioNewTopic(topic, 2, 1)]))
    Confluent(broker.bootstrap).produce(topic, [Record(b"v")] * 3)

    grown = with_aiokafka(
        broker, lambda admin: admin.create_partitions({topic: AioNewPartitions(4)})
    )
    [described] = with_aiokafka(broker, lambda admin: admin.describe_topics([topic]))
    low = with_aiokafka(broker, lambda admin: admin.delete_records({partition: RecordsToDelete(2)}))
    deleted = with_aiokafka(broker, lambda admin: admin.delete_topics([topic]))
    left = with_aiokafka(broker, lambda admin: admin.list_topics())

    assert grown.topic_errors[0][1] == 0
    assert len(described["partitions"]) == 4
    assert low == {partition: 2}
    assert deleted.topic_error_codes == [(topic, 0)]
    assert topic not in left


def test_aiokafka_describes_the_cluster_and_changes_a_setting(
    broker: BrokerProcess, topic: str
) -> None:
    resource = AioConfigResource(AioConfigResourceType.TOPIC, topic, {"retention.ms": "7000"})

    cluster = with_aiokafka(broker, lambda admin: admin.describe_cluster())
    with_aiokafka(broker, lambda admin: admin.alter_configs([resource]))
    [answer] = with_aiokafka(broker, lambda admin: admin.describe_configs([resource]))

    assert cluster["controller_id"] == 1
    assert "7000" in str(answer)


def test_offsets_topic_is_listed_once_a_group_was_there(
    broker: BrokerProcess, new_name: NewName
) -> None:
    with kafka_python.consumer(broker.bootstrap, group_id=new_name("group")) as consumer:
        consumer.committed(kafka.TopicPartition("anything", 0))

    listed = with_aiokafka(broker, lambda admin: admin.list_topics())

    assert "__consumer_offsets" in listed


def test_append_time_topic_gets_the_time_of_the_broker(
    client: Client, create_topic: CreateTopic
) -> None:
    topic = create_topic(message_timestamp_type="LogAppendTime")
    year_2001_ms = 978_307_200_000

    client.produce(topic, [Record(b"v", None, (), year_2001_ms)] * 3, codec="gzip")
    seen = client.consume(topic, 3)

    assert len({each.timestamp_ms for each in seen}) == 1
    assert seen[0].timestamp_ms > 1_767_225_600_000
