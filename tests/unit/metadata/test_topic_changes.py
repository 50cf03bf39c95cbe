"""DeleteTopics and CreatePartitions: what they do, and every reason to refuse."""

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsTopic
from tests.unit.metadata.cluster import Cluster, a_topic


def _with_topics(*names: str, overrides: tuple[str, ...] = ()) -> Cluster:
    cluster = Cluster(*overrides)
    cluster.create(*(a_topic(name, configs={"retention.ms": "1"}) for name in names))
    return cluster


def _delete(cluster: Cluster, *topics: DeleteTopicsTopic) -> list[int]:
    request = DeleteTopicsRequest(topics=list(topics))
    response = cluster.carry_out(cluster.controller.delete_topics(request))
    return [result.error_code for result in response.responses]


def _grow(cluster: Cluster, count: int, *assignments: list[int], name: str = "t") -> int:
    given = [CreatePartitionsAssignment(broker_ids) for broker_ids in assignments] or None
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name, count, given)])
    (result,) = cluster.carry_out(cluster.controller.create_partitions(request)).results
    assert (result.error_message is None) == (result.error_code == ErrorCode.NONE)
    return result.error_code


# -- DeleteTopics --------------------------------------------------------------------------------


def test_a_deleted_topic_takes_its_settings_along() -> None:
    cluster = _with_topics("a", "b")
    a_id = cluster.image.topics["a"].topic_id

    request = DeleteTopicsRequest(topic_names=["a"])
    response = cluster.carry_out(cluster.controller.delete_topics(request))

    (result,) = response.responses
    assert (result.name, result.topic_id, result.error_code) == ("a", a_id, ErrorCode.NONE)
    assert list(cluster.image.topics) == ["b"]
    assert cluster.image.topic_by_id(a_id) is None
    assert cluster.image.topic_config("a") == {}


def test_a_topic_is_deleted_by_id_and_the_answer_names_it() -> None:
    cluster = _with_topics("a")
    topic_id = cluster.image.topics["a"].topic_id

    request = DeleteTopicsRequest(topics=[DeleteTopicsTopic(topic_id=topic_id)])
    response = cluster.carry_out(cluster.controller.delete_topics(request))

    assert [result.name for result in response.responses] == ["a"]
    assert not cluster.image.topics


def test_a_name_that_was_deleted_can_be_created_with_another_id() -> None:
    cluster = _with_topics("a")
    old_id = cluster.image.topics["a"].topic_id
    _delete(cluster, DeleteTopicsTopic(name="a"))

    (result,) = cluster.create(a_topic("a"))

    assert result.error_code == ErrorCode.NONE
    assert result.topic_id != old_id


def test_nothing_is_deleted_where_deletion_is_switched_off() -> None:
    cluster = _with_topics("a", overrides=("delete.topic.enable=false",))

    assert _delete(cluster, DeleteTopicsTopic(name="a"), DeleteTopicsTopic(name="b")) == [
        ErrorCode.TOPIC_DELETION_DISABLED,
        ErrorCode.TOPIC_DELETION_DISABLED,
    ]
    assert "a" in cluster.image.topics


def test_unknown_names_and_unknown_ids_have_codes_of_their_own() -> None:
    cluster = _with_topics("a")

    unknown = (DeleteTopicsTopic(name="x"), DeleteTopicsTopic(topic_id=bytes([7] * 16)))

    assert _delete(cluster, *unknown, DeleteTopicsTopic(name="a")) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NONE,
    ]


def test_a_topic_is_named_either_by_name_or_by_id() -> None:
    cluster = _with_topics("a")
    topic_id = cluster.image.topics["a"].topic_id

    both = DeleteTopicsTopic(name="a", topic_id=topic_id)

    assert _delete(cluster, both, DeleteTopicsTopic()) == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]


def test_a_topic_named_twice_is_not_deleted() -> None:
    cluster = _with_topics("a", "b")

    codes = _delete(
        cluster,
        DeleteTopicsTopic(name="a"),
        DeleteTopicsTopic(name="a"),
        DeleteTopicsTopic(name="b"),
        DeleteTopicsTopic(topic_id=cluster.image.topics["b"].topic_id),
    )

    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert list(cluster.image.topics) == ["a"]


# -- CreatePartitions ----------------------------------------------------------------------------


def test_partitions_are_added_behind_those_there_are() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(a_topic(partitions=2, factor=2))
    before = cluster.image.topics["t"].partitions

    assert _grow(cluster, 4) == ErrorCode.NONE

    after = cluster.image.topics["t"].partitions
    assert sorted(after) == [0, 1, 2, 3]
    assert all(after[number] is before[number] for number in before)
    assert all(len(partition.replicas) == 2 for partition in after.values())


def test_new_partitions_can_be_assigned() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(a_topic(partitions=1, factor=2))

    assert _grow(cluster, 3, [2, 3], [3, 1]) == ErrorCode.NONE

    partitions = cluster.image.topics["t"].partitions
    assert [partitions[number].replicas for number in (1, 2)] == [(2, 3), (3, 1)]


@pytest.mark.parametrize(
    ("count", "code"),
    [
        (3, ErrorCode.INVALID_PARTITIONS),
        (2, ErrorCode.INVALID_PARTITIONS),
        (0, ErrorCode.INVALID_PARTITIONS),
        (-1, ErrorCode.INVALID_PARTITIONS),
        (10_004, ErrorCode.POLICY_VIOLATION),
        (4, ErrorCode.NONE),
    ],
)
def test_a_count_must_be_an_increase_and_bounded(count: int, code: int) -> None:
    cluster = Cluster()
    cluster.create(a_topic(partitions=3))

    assert _grow(cluster, count) == code


@pytest.mark.parametrize(
    "assignments", [[[1]], [[1], [1], [1]], [[1], []], [[1], [7]], [[1], [1, 2]]]
)
def test_bad_assignments_of_new_partitions_are_refused(assignments: list[list[int]]) -> None:
    cluster = Cluster(brokers=2)
    cluster.create(a_topic(partitions=1, factor=1))

    assert _grow(cluster, 3, *assignments) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_partitions_of_an_unknown_topic_are_refused() -> None:
    assert _grow(Cluster(), 3, name="x") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_is_grown_twice_in_a_request_is_refused_once() -> None:
    cluster = _with_topics("t")
    topics = [CreatePartitionsTopic("t", 2), CreatePartitionsTopic("t", 3)]

    decision = cluster.controller.create_partitions(CreatePartitionsRequest(topics=topics))

    assert decision.records == []
    assert [result.error_code for result in decision.response.results] == [
        ErrorCode.INVALID_REQUEST
    ]


def test_validating_an_increase_writes_nothing() -> None:
    cluster = _with_topics("t")
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic("t", 5)], validate_only=True)

    decision = cluster.controller.create_partitions(request)

    assert decision.records == []
    assert [result.error_code for result in decision.response.results] == [ErrorCode.NONE]
