"""Topics, configurations and what describes them."""

from collections.abc import Callable

import pytest

from ledgerstone.metadata.image import ResourceType
from ledgerstone.protocol.api import OFFERED, ApiKey
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.alter_configs import (
    AlterConfigsConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)
from ledgerstone.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ledgerstone.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ledgerstone.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ledgerstone.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from ledgerstone.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ledgerstone.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from ledgerstone.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from ledgerstone.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ledgerstone.server.dispatch import HANDLED
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import T0, batch
from tests.kit.roles import led_by
from tests.unit.server.asks import (
    TOPIC,
    create_topic,
    delete_topic,
    fetch,
    fetched,
    produced,
    read_all,
    values_in,
    write,
)

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


# -- versions and metadata --------------------------------------------------------------------


@pytest.mark.parametrize("version", range(OFFERED[ApiKey.API_VERSIONS].last + 1))
def test_every_version_of_api_versions_lists_what_is_handled(client: Client, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")

    answer = client.ask(request, ApiVersionsResponse, version)

    assert [each.api_key for each in answer.api_keys] == sorted(HANDLED & set(OFFERED))


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 500 + "!"])
def test_software_that_has_no_name_is_refused(client: Client, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")

    assert client.ask(request, ApiVersionsResponse).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(OFFERED[ApiKey.METADATA].last + 1))
def test_every_version_of_metadata_describes_a_topic(client: Client, version: int) -> None:
    create_topic(client, partitions=2)

    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    answer = client.ask(request, MetadataResponse, version)

    assert [(each.name, len(each.partitions)) for each in answer.topics] == [(TOPIC, 2)]
    assert (answer.brokers[0].host, answer.brokers[0].port) == ("broker.example", 9092)


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_topic_id_that_nobody_has_is_answered_in_versions_with_and_without_null_names(
    client: Client, version: int
) -> None:
    asked = MetadataRequestTopic(name=None, topic_id=b"\x07" * 16)

    answer = client.ask(MetadataRequest(topics=[asked]), MetadataResponse, version)

    # Before version 12 there is no asking by id, and Kafka says nothing but that.
    assert answer.topics[0].error_code == (
        ErrorCode.UNKNOWN_TOPIC_ID if version >= 12 else ErrorCode.INVALID_REQUEST
    )
    assert answer.topics[0].topic_id == b"\x07" * 16
    assert answer.topics[0].name == (None if version >= 12 else "")


@pytest.mark.parametrize(
    ("version", "allowed", "codes"),
    [
        (3, False, [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]),
        (4, True, [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]),
        (4, False, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION]),
    ],
)
def test_asking_for_a_topic_creates_it_where_that_is_allowed(
    machine: InProcess, client: Client, version: int, allowed: bool, codes: list[int]
) -> None:
    topics = [MetadataRequestTopic(name="fresh"), MetadataRequestTopic(name="a/b")]

    request = MetadataRequest(topics=topics, allow_auto_topic_creation=allowed)
    answer = client.ask(request, MetadataResponse, version)

    assert [each.error_code for each in answer.topics] == codes
    assert ("fresh" in machine.broker.image.topics) == (codes[0] == 0)


def test_asking_creates_nothing_where_the_broker_forbids_it() -> None:
    machine = InProcess(settings={"auto.create.topics.enable": "false"})
    client = machine.connect()

    request = MetadataRequest(topics=[MetadataRequestTopic(name="fresh")])
    answer = client.ask(request, MetadataResponse)

    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_cluster_and_quorum_are_described(machine: InProcess, client: Client) -> None:
    asked = [
        DescribeQuorumRequestTopic(
            topic_name=name, partitions=[DescribeQuorumRequestPartition(partition_index=0)]
        )
        for name in ("__cluster_metadata", "other")
    ]

    cluster = client.ask(DescribeClusterRequest(), DescribeClusterResponse)
    controllers = client.ask(DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse)
    quorum = client.ask(DescribeQuorumRequest(topics=asked[:1]), DescribeQuorumResponse)
    refused = client.ask(DescribeQuorumRequest(topics=asked), DescribeQuorumResponse)

    assert cluster.cluster_id == machine.broker.image.cluster_id
    assert [each.broker_id for each in cluster.brokers] == [1]
    assert controllers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    (known,) = quorum.topics[0].partitions
    assert [each.replica_id for each in known.current_voters] == [1]
    assert [(node.node_id, node.listeners[0].port) for node in quorum.nodes] == [(1, 9092)]
    # As in Kafka, one stranger spoils the whole request.
    assert [topic.partitions[0].error_code for topic in refused.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_partitions_are_described_page_by_page(client: Client) -> None:
    create_topic(client, "a", partitions=3)
    create_topic(client, "b", partitions=2)
    cursor: DescribeTopicPartitionsCursor | None = None
    seen = []

    for _ in range(3):
        request = DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
        answer = client.ask(request, DescribeTopicPartitionsResponse)
        seen += [
            (topic.name, each.partition_index)
            for topic in answer.topics
            for each in topic.partitions
        ]
        if answer.next_cursor is None:
            break
        cursor = DescribeTopicPartitionsCursor(
            answer.next_cursor.topic_name, answer.next_cursor.partition_index
        )

    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert answer.next_cursor is None


# -- topics -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "code"),
    [
        ("a/b", 1, 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", 1, 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, 1, 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, 1, 1, ErrorCode.TOPIC_ALREADY_EXISTS),
        ("new", 0, 1, ErrorCode.INVALID_PARTITIONS),
        ("new", 2**31 - 1, 1, ErrorCode.POLICY_VIOLATION),
        ("new", 1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        ("new", 1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        ("__cluster_metadata", 1, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_topic_that_cannot_be_made_is_refused_with_kafkas_code(
    client: Client, name: str, partitions: int, replicas: int, code: int
) -> None:
    create_topic(client)
    topic = CreateTopicsRequestTopic(
        name=name, num_partitions=partitions, replication_factor=replicas
    )

    answer = client.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)

    assert answer.topics[0].error_code == code


def test_bad_configuration_is_refused_and_nothing_made(machine: InProcess, client: Client) -> None:
    answer = create_topic(client, "new", cleanup_policy="burn")

    assert answer.topics[0].error_code == ErrorCode.INVALID_CONFIG
    assert "new" not in machine.broker.image.topics


def test_validate_only_makes_nothing(machine: InProcess, client: Client) -> None:
    topic = CreateTopicsRequestTopic(name="new", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], validate_only=True)

    answer = client.ask(request, CreateTopicsResponse)

    assert answer.topics[0].error_code == ErrorCode.NONE
    assert "new" not in machine.broker.image.topics


def test_deleted_topic_comes_back_empty_under_the_same_name(client: Client) -> None:
    create_topic(client)
    write(client, "old")

    code = delete_topic(client)
    gone = fetched(client).error_code
    create_topic(client)

    assert (code, gone) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert read_all(client) == []
    assert delete_topic(client, "never") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_are_added_and_never_taken(client: Client) -> None:
    create_topic(client, partitions=2)

    def grown(count: int) -> int:
        topics = [CreatePartitionsTopic(name=TOPIC, count=count, assignments=None)]
        request = CreatePartitionsRequest(topics=topics)
        return client.ask(request, CreatePartitionsResponse).results[0].error_code

    codes = [grown(count) for count in (4, 4, 3, -1)]
    write(client, "new", partition=3)

    assert codes == [
        ErrorCode.NONE,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_PARTITIONS,
    ]
    assert read_all(client, partition=3) == ["new"]


def delete_records(client: Client, offset: int, topic: str = TOPIC) -> tuple[int, int]:
    asked = [DeleteRecordsRequestPartition(partition_index=0, offset=offset)]
    topics = [DeleteRecordsRequestTopic(name=topic, partitions=asked)]
    response = client.ask(DeleteRecordsRequest(topics=topics), DeleteRecordsResponse)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def test_records_below_an_offset_are_gone_for_readers(client: Client) -> None:
    create_topic(client)
    write(client, "a", "b", "c")

    middle = delete_records(client, 1)
    below = fetched(client, fetch({0: 0})).error_code
    left = values_in(fetched(client, fetch({0: 1})))
    back = delete_records(client, 0)
    beyond = delete_records(client, 4)
    everything = delete_records(client, -1)

    assert (middle, below, left) == ((ErrorCode.NONE, 1), ErrorCode.OFFSET_OUT_OF_RANGE, ["b", "c"])
    assert (back, everything) == ((ErrorCode.NONE, 1), (ErrorCode.NONE, 3))
    assert beyond == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_records_of_compacted_and_internal_topics_are_not_deleted_by_offset(
    client: Client,
) -> None:
    create_topic(client, "compacted", cleanup_policy="compact")

    assert delete_records(client, -1, "compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete_records(client, -1, "__consumer_offsets") == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        -1,
    )
    assert delete_records(client, -1, "never") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_leaders_need_no_election(client: Client) -> None:
    create_topic(client)

    answer = client.ask(ElectLeadersRequest(topic_partitions=None), ElectLeadersResponse)

    assert answer.error_code == ErrorCode.NONE


def test_log_directory_tells_sizes(machine: InProcess, client: Client) -> None:
    create_topic(client)
    write(client, "value")

    answer = client.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)

    size = answer.results[0].topics[0].partitions[0].partition_size
    log = machine.broker.partitions.get(TopicPartition(TOPIC, 0)).log
    assert size == log.size_bytes > 0


# -- offsets by time --------------------------------------------------------------------------


def list_offsets(client: Client, *timestamps: int, version: int = 10) -> list[tuple[int, int, int]]:
    answers = []
    for timestamp in timestamps:
        asked = [ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)]
        request = ListOffsetsRequest(topics=[ListOffsetsRequestTopic(TOPIC, asked)])
        one = client.ask(request, ListOffsetsResponse, version).topics[0].partitions[0]
        answers.append((one.error_code, one.offset, one.timestamp))
    return answers


def test_offsets_are_found_by_time_and_by_name(client: Client) -> None:
    create_topic(client)
    for age_ms in (30, 20, 25):
        produced(client, batch(("key", "v"), timestamp=T0 - age_ms))

    by_name = list_offsets(client, -1, -2, -3, -4, -5)
    by_time = list_offsets(client, T0 - 30, T0 - 29, T0 - 20, T0, 0)

    assert by_name == [(0, 3, -1), (0, 0, -1), (0, 1, T0 - 20), (0, 0, -1), (0, -1, -1)]
    assert by_time == [
        (0, 0, T0 - 30), (0, 1, T0 - 20), (0, 1, T0 - 20), (0, -1, -1), (0, 0, T0 - 30),
    ]  # fmt: skip


def test_partition_asked_for_twice_is_refused_and_the_others_are_not(client: Client) -> None:
    create_topic(client, partitions=2)
    asked = [
        ListOffsetsRequestPartition(partition_index=number, timestamp=-1) for number in (0, 1, 0)
    ]
    request = ListOffsetsRequest(topics=[ListOffsetsRequestTopic(TOPIC, asked)])

    answer = client.ask(request, ListOffsetsResponse)

    answers = answer.topics[0].partitions
    assert [(each.partition_index, each.error_code) for each in answers] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.NONE),
    ]


# -- configurations ---------------------------------------------------------------------------


def described(client: Client, kind: int, name: str, *keys: str) -> dict[str, str | None]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource])
    answer = client.ask(request, DescribeConfigsResponse).results[0]
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return {config.name: config.value for config in answer.configs}


def alter(client: Client, key: str, operation: int, value: str | None) -> int:
    config = IncrementalAlterConfigsConfig(name=key, config_operation=operation, value=value)
    resource = IncrementalAlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    return client.ask(request, IncrementalAlterConfigsResponse).responses[0].error_code


def test_configuration_is_set_extended_and_unset_and_holds_at_once(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    key = "cleanup.policy"
    log = machine.broker.partitions.get(TopicPartition(TOPIC, 0)).log

    codes = [alter(client, "retention.ms", SET, "1000"), alter(client, key, APPEND, "compact")]
    after = described(client, TOPIC_RESOURCE, TOPIC, key, "retention.ms")
    held = log.config.retention_ms
    codes += [alter(client, key, SUBTRACT, "delete"), alter(client, "retention.ms", DELETE, None)]
    later = described(client, TOPIC_RESOURCE, TOPIC, key, "retention.ms")
    codes += [alter(client, "retention.ms", SET, "soon"), alter(client, "no.such", SET, "1")]

    assert codes == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_CONFIG,
    ]
    assert after == {key: "delete,compact", "retention.ms": "1000"}
    assert later == {key: "compact", "retention.ms": "604800000"}
    assert held == 1000


def test_old_way_of_altering_replaces_everything(client: Client) -> None:
    create_topic(client, retention_ms="1000", segment_ms="2000")
    configs = [AlterConfigsConfig(name="segment.ms", value="3000")]
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=configs
    )

    answer = client.ask(AlterConfigsRequest(resources=[resource]), AlterConfigsResponse)

    assert answer.responses[0].error_code == ErrorCode.NONE
    values = described(client, TOPIC_RESOURCE, TOPIC, "retention.ms", "segment.ms")
    assert values == {"retention.ms": "604800000", "segment.ms": "3000"}


def test_broker_describes_itself_and_nobody_else(client: Client) -> None:
    own = described(client, BROKER_RESOURCE, "1", "offsets.topic.num.partitions")
    codes = []
    for kind, name in ((BROKER_RESOURCE, "2"), (TOPIC_RESOURCE, "never"), (99, "x")):
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name)
        request = DescribeConfigsRequest(resources=[resource])
        codes.append(client.ask(request, DescribeConfigsResponse).results[0].error_code)

    assert own == {"offsets.topic.num.partitions": "2"}
    assert codes == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    ]


def test_resource_asked_for_many_times_is_described_once(client: Client) -> None:
    create_topic(client)
    resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=TOPIC)

    request = DescribeConfigsRequest(resources=[resource] * 5_000)
    answer = client.ask(request, DescribeConfigsResponse)

    assert len(answer.results) == 1
    assert client.received_bytes < 50_000


def test_topic_asked_for_many_times_is_described_once(client: Client) -> None:
    create_topic(client)

    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)] * 5_000)
    answer = client.ask(request, MetadataResponse)

    assert [each.name for each in answer.topics] == [TOPIC]


def test_resource_name_as_long_as_the_protocol_allows_is_answered(client: Client) -> None:
    resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="9" * 32_767)

    answer = client.ask(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, 1)

    assert answer.results[0].error_code == ErrorCode.INVALID_REQUEST


def test_name_beside_an_id_makes_no_topic(machine: InProcess, client: Client) -> None:
    create_topic(client)
    known = machine.broker.image.topics[TOPIC].topic_id
    asked = [MetadataRequestTopic(known, "fresh"), MetadataRequestTopic(b"\x01" * 16, "new")]

    answer = client.ask(MetadataRequest(topics=asked), MetadataResponse)

    assert [each.error_code for each in answer.topics] == [0, ErrorCode.UNKNOWN_TOPIC_ID]
    assert list(machine.broker.image.topics) == [TOPIC]


def test_metadata_does_not_wait_for_a_controller_elsewhere(
    machine: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which may be away for long; the topics that are there are led all the same."""
    create_topic(client)
    asked: list[tuple[list[str], Callable[[ApiMessage], None]]] = []

    def ask(
        request: CreateTopicsRequest, on_answer: Callable[[ApiMessage], None], **_: object
    ) -> None:
        asked.append(([each.name for each in request.topics], on_answer))

    link, names = machine.broker.controller_link, ("first", TOPIC, "first", "second")
    monkeypatch.setattr(link, "forwards", lambda client: True)
    monkeypatch.setattr(link, "ask", ask)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in names])

    answer = client.ask(request, MetadataResponse)
    machine.connect().ask(request, MetadataResponse)
    (wanted, on_answer), *others = asked
    on_answer(CreateTopicsResponse())
    client.ask(request, MetadataResponse)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in answer.topics] == [unknown, 0, unknown]
    # Once, although two have asked; and again where nothing came of it.
    assert (wanted, others) == (["first", "second"], [])
    assert [each for each, _ in asked] == [wanted, wanted]


# -- settings of groups and of all brokers ------------------------------------------------------


def altered(client: Client, kind: int, name: str, key: str, value: str) -> int:
    config = IncrementalAlterConfigsConfig(name=key, config_operation=0, value=value)
    resource = IncrementalAlterConfigsResource(kind, name, [config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    return client.ask(request, IncrementalAlterConfigsResponse).responses[0].error_code


def test_settings_of_a_group_are_shown_listed_and_there_after_a_restart(
    machine: InProcess, client: Client
) -> None:
    group, key = ResourceType.GROUP, "consumer.session.timeout.ms"

    code = altered(client, group, "later", key, "50000")
    machine.stop()
    machine.start()
    again = machine.connect()
    listed = again.ask(
        ListConfigResourcesRequest(resource_types=[group]), ListConfigResourcesResponse
    )

    assert code == ErrorCode.NONE
    assert described(again, group, "later", key) == {key: "50000"}
    assert described(again, group, "other", key) == {key: "45000"}
    assert len(described(again, group, "other")) == 17
    assert [each.resource_name for each in listed.config_resources] == ["later"]


def test_only_so_many_groups_that_need_not_exist_are_described(client: Client) -> None:
    group = ResourceType.GROUP
    altered(client, group, "real", "consumer.session.timeout.ms", "50000")
    names = [*(f"g{number}" for number in range(1_002)), "real"]
    resources = [
        DescribeConfigsResource(group, each, ["share.auto.offset.reset"]) for each in names
    ]

    answer = client.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)

    assert [each.resource_name for each in answer.results] == names
    refused = [each for each in answer.results if each.error_code]
    assert [each.resource_name for each in refused] == ["g1000", "g1001"]
    assert {each.error_code for each in refused} == {ErrorCode.POLICY_VIOLATION}


def test_default_that_contradicts_a_topic_stops_nobody(machine: InProcess, client: Client) -> None:
    """Kafka takes it, too: the two belong to different resources."""
    create_topic(client)
    keys = "min.compaction.lag.ms", "max.compaction.lag.ms"

    codes = [
        alter(client, keys[0], SET, "5000"),
        altered(client, ResourceType.BROKER, "", f"log.cleaner.{keys[1]}", "1000"),
    ]
    config = machine.broker.partitions.get(TopicPartition(TOPIC, 0)).log.config
    machine.stop()
    machine.start()
    again = machine.connect()

    assert codes == [ErrorCode.NONE, ErrorCode.NONE]
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (5000, 5000)
    assert described(again, TOPIC_RESOURCE, TOPIC, *keys) == {keys[0]: "5000", keys[1]: "1000"}
    assert produced(again, batch(("k", "v"))).error_code == ErrorCode.NONE
    # Who alters the topic is told.
    assert alter(again, "retention.ms", SET, "1000") == ErrorCode.INVALID_CONFIG


def test_minimum_of_replicas_in_sync_holds_for_all_topics_without_their_own(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    create_topic(client, "own", min_insync_replicas="1")
    for topic in (TOPIC, "own"):
        partition = machine.broker.partitions.get(TopicPartition(topic, 0))
        partition.assume(led_by(1, 1, (1,), replicas=(1, 2)))

    code = altered(client, ResourceType.BROKER, "", "min.insync.replicas", "2")
    acks = [
        produced(client, batch(("k", "v")), topic, acks=-1).error_code for topic in (TOPIC, "own")
    ]

    assert code == ErrorCode.NONE
    assert acks == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE]
    assert described(client, ResourceType.TOPIC, TOPIC, "min.insync.replicas") == {
        "min.insync.replicas": "2"
    }
