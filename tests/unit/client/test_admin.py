"""What an operator does: the requests that go out, and what becomes of the answers."""

import pytest

from ledgerstone.client import admin
from ledgerstone.client.configs import (
    ConfigSource,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)
from ledgerstone.client.groups import (
    GroupLag,
    delete_group,
    describe_group,
    group_lags,
    list_groups,
)
from ledgerstone.errors import GroupIdNotFound, NonEmptyGroup, TopicAlreadyExists
from ledgerstone.protocol.codec import encode
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages import ApiKey
from ledgerstone.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeTopicPartition,
)
from ledgerstone.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentAssignedPartition,
)
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from ledgerstone.protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResult,
)
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from ledgerstone.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResult,
)
from ledgerstone.protocol.messages.describe_configs import (
    DescribeConfigsConfig,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseTopic,
    DescribeLogDirsResult,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResult,
)
from ledgerstone.protocol.messages.list_groups import (
    ListGroupsGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ledgerstone.types import TopicPartition
from tests.unit.client.fake_cluster import FakeCluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def last_request(cluster: FakeCluster) -> ApiMessage:
    return cluster.requests[-1][1]


def created(code: int = 0) -> CreateTopicsResponse:
    topic = CreateTopicsResponseTopic(name="t", error_code=code, error_message="why")
    return CreateTopicsResponse(topics=[topic])


def test_topic_is_created_at_the_controller() -> None:
    cluster = FakeCluster([1, 2])
    cluster.controller_id = 2
    cluster.once(CreateTopicsRequest, created())

    with cluster.client() as client:
        new = admin.NewTopic(name="t", partitions=3, configs={"cleanup.policy": "compact"})
        admin.create_topic(client, new)

    assert cluster.asked(CreateTopicsRequest) == [2]
    request = last_request(cluster)
    assert isinstance(request, CreateTopicsRequest)
    assert request.topics[0].num_partitions == 3
    assert [(c.name, c.value) for c in request.topics[0].configs] == [("cleanup.policy", "compact")]


def test_refused_topic_is_raised_with_the_brokers_words() -> None:
    cluster = FakeCluster()
    cluster.once(CreateTopicsRequest, created(36))

    with cluster.client() as client, pytest.raises(TopicAlreadyExists, match=r"topic t: .*: why"):
        admin.create_topic(client, admin.NewTopic(name="t", configs={}))


@pytest.mark.parametrize("last_version", [5, 6])
def test_topic_is_deleted_by_name_in_either_layout(last_version: int) -> None:
    cluster = FakeCluster()
    cluster.limit_version(ApiKey.DELETE_TOPICS, last_version)
    cluster.once(DeleteTopicsRequest, DeleteTopicsResponse(responses=[DeleteTopicsResult("t")]))

    with cluster.client() as client:
        admin.delete_topic(client, "t")

    request = last_request(cluster)
    assert isinstance(request, DeleteTopicsRequest)
    assert [*request.topic_names, *[each.name for each in request.topics]] == ["t"]


def test_partitions_are_added_up_to_a_total() -> None:
    cluster = FakeCluster()
    done = CreatePartitionsResponse(results=[CreatePartitionsResult("t")])
    cluster.once(CreatePartitionsRequest, done)

    with cluster.client() as client:
        admin.add_partitions(client, "t", 5)

    request = last_request(cluster)
    assert isinstance(request, CreatePartitionsRequest)
    assert request.topics[0].count == 5


def test_records_are_deleted_at_their_leader() -> None:
    cluster = FakeCluster([1, 2])
    cluster.topic("t", [2])
    answer = DeleteRecordsResponsePartition(partition_index=0, low_watermark=4)
    topic = DeleteRecordsResponseTopic(name="t", partitions=[answer])
    cluster.once(DeleteRecordsRequest, DeleteRecordsResponse(topics=[topic]))

    with cluster.client() as client:
        found = admin.delete_records(client, {P0: 4}).all_done()

    assert found == {P0: 4}
    assert cluster.asked(DeleteRecordsRequest) == [2]


def test_log_directories_of_every_broker_are_read() -> None:
    cluster = FakeCluster([1, 2])
    log = DescribeLogDirsPartition(partition_index=0, partition_size=77, offset_lag=1)
    topic = DescribeLogDirsResponseTopic(name="t", partitions=[log])
    found_dir = DescribeLogDirsResult(log_dir="d", topics=[topic])
    cluster.once(
        DescribeLogDirsRequest,
        DescribeLogDirsResponse(results=[found_dir]),
        DescribeLogDirsResponse(),
    )

    with cluster.client() as client:
        logs = admin.replica_logs(client)

    assert cluster.asked(DescribeLogDirsRequest) == [1, 2]
    assert [(each.broker_id, each.partition, each.size_bytes) for each in logs] == [(1, P0, 77)]


def test_settings_of_a_broker_are_asked_of_that_broker() -> None:
    cluster = FakeCluster([1, 2])
    config = DescribeConfigsConfig(name="log.dirs", value="d", config_source=4)
    result = DescribeConfigsResult(configs=[config])
    cluster.once(DescribeConfigsRequest, DescribeConfigsResponse(results=[result]))

    with cluster.client() as client:
        (entry,) = describe_configs(client, Resource(ResourceType.BROKER, "2"))

    assert cluster.asked(DescribeConfigsRequest) == [2]
    assert entry.source is ConfigSource.STATIC_BROKER_CONFIG


def test_setting_without_a_value_is_set_back() -> None:
    cluster = FakeCluster()
    done = IncrementalAlterConfigsResponse(responses=[IncrementalAlterConfigsResult()])
    cluster.once(IncrementalAlterConfigsRequest, done)

    with cluster.client() as client:
        alter_configs(client, Resource(ResourceType.TOPIC, "t"), {"a": "1", "b": None})

    request = last_request(cluster)
    assert isinstance(request, IncrementalAlterConfigsRequest)
    sent = [(each.name, each.config_operation, each.value) for each in request.resources[0].configs]
    assert sent == [("a", 0, "1"), ("b", 1, None)]


def test_groups_of_all_brokers_make_one_list() -> None:
    cluster = FakeCluster([1, 2])
    cluster.once(
        ListGroupsRequest,
        ListGroupsResponse(groups=[ListGroupsGroup("z"), ListGroupsGroup("b")]),
        ListGroupsResponse(groups=[ListGroupsGroup("a", "consumer", "Stable", "classic")]),
    )

    with cluster.client() as client:
        found = list_groups(client)

    assert [each.group_id for each in found] == ["a", "b", "z"]
    assert found[0].state == "Stable"


def classic_group(assignment: bytes) -> DescribeGroupsResponse:
    member = DescribeGroupsMember(
        member_id="m", client_id="c", client_host="h", member_assignment=assignment
    )
    group = DescribeGroupsGroup(group_id="g", group_state="Stable", members=[member])
    return DescribeGroupsResponse(groups=[group])


def not_of_that_kind() -> ConsumerGroupDescribeResponse:
    group = ConsumerGroupDescribeGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    return ConsumerGroupDescribeResponse(groups=[group])


def test_classic_member_says_what_it_was_assigned() -> None:
    cluster = FakeCluster()
    assigned = ConsumerProtocolAssignmentAssignedPartition("t", [0, 1])
    (body,) = encode(ConsumerProtocolAssignment(assigned_partitions=[assigned]), 1)
    assert isinstance(body, bytes)
    cluster.once(ConsumerGroupDescribeRequest, not_of_that_kind())
    cluster.once(DescribeGroupsRequest, classic_group(b"\x00\x01" + body))

    with cluster.client() as client:
        group = describe_group(client, "g")

    assert (group.type, group.members[0].partitions) == ("classic", (P0, P1))


@pytest.mark.parametrize(
    "assignment", [b"", b"\x00", b"\x00\x01\xff", b"\xff\xff", b"\x00\x00\x7f"]
)
def test_assignment_of_another_kind_is_no_reason_to_fail(assignment: bytes) -> None:
    cluster = FakeCluster()
    cluster.offered.remove(ApiKey.CONSUMER_GROUP_DESCRIBE)
    cluster.once(DescribeGroupsRequest, classic_group(assignment))

    with cluster.client() as client:
        group = describe_group(client, "g")

    assert group.members[0].partitions == ()


def test_new_consumer_group_is_described_by_its_own_api() -> None:
    cluster = FakeCluster()
    topic = ConsumerGroupDescribeTopicPartition(topic_name="t", partitions=[1])
    assignment = ConsumerGroupDescribeAssignment(topic_partitions=[topic])
    member = ConsumerGroupDescribeMember(member_id="m", assignment=assignment)
    group = ConsumerGroupDescribeGroup(group_id="g", group_state="Stable", members=[member])
    cluster.once(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse(groups=[group]))

    with cluster.client() as client:
        found = describe_group(client, "g")

    assert (found.type, found.members[0].partitions) == ("consumer", (P1,))


def test_dead_group_is_not_known() -> None:
    cluster = FakeCluster()
    dead = DescribeGroupsGroup(group_id="g", group_state="Dead")
    cluster.once(ConsumerGroupDescribeRequest, not_of_that_kind())
    cluster.once(DescribeGroupsRequest, DescribeGroupsResponse(groups=[dead]))

    with cluster.client() as client, pytest.raises(GroupIdNotFound, match="group g"):
        describe_group(client, "g")


def test_lag_is_what_lies_between_commit_and_end() -> None:
    cluster = FakeCluster()
    cluster.topic("t", [1, 1])
    cluster.logs[P0].end_offset = 10
    cluster.logs[P1].start_offset = cluster.logs[P1].end_offset = 5
    cluster.committed = {("g", P0): 4, ("g", P1): 2}
    cluster.offered.remove(ApiKey.CONSUMER_GROUP_DESCRIBE)
    cluster.once(DescribeGroupsRequest, classic_group(b""))

    with cluster.client() as client:
        lags = group_lags(client, describe_group(client, "g"))

    assert [(each.lag, each.missed_records) for each in lags] == [(6, False), (3, True)]


def test_partition_without_a_commit_has_no_lag() -> None:
    lag = GroupLag(partition=P0, committed_offset=None, log_start_offset=0, log_end_offset=9)

    assert (lag.lag, lag.missed_records) == (None, False)


def test_group_with_members_cannot_be_deleted() -> None:
    cluster = FakeCluster()
    refused = DeleteGroupsResult("g", ErrorCode.NON_EMPTY_GROUP)
    cluster.once(DeleteGroupsRequest, DeleteGroupsResponse(results=[refused]))

    with cluster.client() as client, pytest.raises(NonEmptyGroup, match="group g"):
        delete_group(client, "g")
