"""CreateTopics: what a new topic gets, and every reason to refuse one, in the README's order."""

import pytest

from ledgerstone.metadata.config_entries import ConfigSource
from ledgerstone.metadata.topic_names import auto_creation
from ledgerstone.protocol.codec import encode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ledgerstone.uuid_text import ZERO_UUID
from tests.unit.metadata.cluster import Cluster, a_topic


def _code(cluster: Cluster, *args: str, **kwargs: object) -> int:
    result, *others = cluster.create(a_topic(*args, **kwargs))  # type: ignore[arg-type]  # passed on
    assert not others
    assert (result.error_message is None) == (result.error_code == ErrorCode.NONE)
    return result.error_code


# -- what it gets --------------------------------------------------------------------------------


def test_a_new_topic_is_led_by_the_broker_there_is_from_epoch_0() -> None:
    cluster = Cluster()

    (result,) = cluster.create(a_topic(partitions=2, factor=1))

    topic = cluster.image.topics["t"]
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert result.topic_id == topic.topic_id != ZERO_UUID
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    assert sorted(topic.partitions) == [0, 1]
    partition = topic.partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert partition.directories == (bytes([1] * 16),)


def test_minus_one_means_the_defaults_of_the_broker() -> None:
    cluster = Cluster("num.partitions=3", "default.replication.factor=2", brokers=2)

    (result,) = cluster.create(a_topic())

    assert (result.num_partitions, result.replication_factor) == (3, 2)
    assert len(cluster.image.topics["t"].partitions) == 3


def test_settings_are_kept_and_the_answer_lists_all_with_their_sources() -> None:
    cluster = Cluster("log.retention.hours=1")

    (result,) = cluster.create(a_topic(configs={"cleanup.policy": "compact"}))

    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}
    assert result.configs is not None
    shown = {each.name: (each.value, each.config_source) for each in result.configs}
    assert shown["cleanup.policy"] == ("compact", ConfigSource.TOPIC)
    assert shown["retention.ms"] == ("3600000", ConfigSource.STATIC)
    assert shown["segment.bytes"] == ("1073741824", ConfigSource.DEFAULT)


def test_replicas_can_be_assigned_in_any_order_of_partitions() -> None:
    cluster = Cluster(brokers=3)

    (result,) = cluster.create(a_topic(assignments={1: [2, 3], 0: [3, 1]}))

    partitions = cluster.image.topics["t"].partitions
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    assert [partitions[number].replicas for number in (0, 1)] == [(3, 1), (2, 3)]
    assert [partitions[number].leader for number in (0, 1)] == [3, 2]


def test_a_fenced_replica_is_neither_leader_nor_in_sync() -> None:
    cluster = Cluster(brokers=2)
    cluster.fence(2)

    cluster.create(a_topic(assignments={0: [2, 1]}))

    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1,), 1)


def test_validate_only_answers_the_same_without_records_and_without_an_id() -> None:
    cluster = Cluster()
    request = CreateTopicsRequest(topics=[a_topic(partitions=2)], validate_only=True)

    decision = cluster.controller.create_topics(request)

    assert decision.records == []
    (result,) = decision.response.topics
    assert (result.error_code, result.num_partitions, result.topic_id) == (
        ErrorCode.NONE,
        2,
        ZERO_UUID,
    )


def test_one_refused_topic_does_not_stop_the_others() -> None:
    cluster = Cluster()

    results = cluster.create(a_topic("a"), a_topic("b", partitions=0), a_topic("c"))

    assert [(result.name, result.error_code) for result in results] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.INVALID_PARTITIONS),
        ("c", ErrorCode.NONE),
    ]
    assert sorted(cluster.image.topics) == ["a", "c"]


# -- names ---------------------------------------------------------------------------------------


def test_a_name_asked_for_twice_is_refused_once() -> None:
    cluster = Cluster()

    results = cluster.create(a_topic("a"), a_topic("b"), a_topic("a"))

    assert [(result.name, result.error_code) for result in results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.NONE),
    ]
    assert sorted(cluster.image.topics) == ["b"]


def test_the_log_of_the_cluster_is_no_topic() -> None:
    assert _code(Cluster(), "__cluster_metadata") == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "a\n", "x" * 250])
def test_illegal_names_are_refused(name: str) -> None:
    assert _code(Cluster(), name) == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["...", "a.B_c-9", "x" * 249])
def test_legal_names_are_accepted(name: str) -> None:
    assert _code(Cluster(), name) == ErrorCode.NONE


def test_a_name_that_exists_is_refused() -> None:
    cluster = Cluster()
    cluster.create(a_topic("a"))

    assert _code(cluster, "a") == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_name_that_differs_only_in_dots_and_underscores_is_refused() -> None:
    cluster = Cluster()
    cluster.create(a_topic("a.b_c"))

    assert _code(cluster, "a_b.c") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert [each.error_code for each in cluster.create(a_topic("x.y"), a_topic("x_y"))] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


# -- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "configs",
    [
        {"no.such.key": "1"},
        {"retention.ms": "soon"},
        {"cleanup.policy": "shred"},
        {"retention.ms": None},
        {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
    ],
)
def test_a_bad_setting_is_refused_with_its_name(configs: dict[str, str | None]) -> None:
    cluster = Cluster()

    (result,) = cluster.create(a_topic(configs=configs))

    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert next(iter(configs)) in (result.error_message or "")


def test_a_setting_longer_than_a_record_can_be_read_is_refused() -> None:
    cluster = Cluster()
    text = "0:1," * 10_000

    (refused,) = cluster.create(a_topic(configs={"leader.replication.throttled.replicas": text}))

    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert not cluster.image.topics


def test_a_reason_is_cut_so_that_every_version_can_carry_it() -> None:
    (result,) = Cluster().create(a_topic(configs={"retention.ms": "\0" * 30_000}))

    assert len(result.error_message or "") < 1100
    assert encode_response(CreateTopicsResponse(topics=[result]), 2)


# -- assignments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assignments",
    [
        {0: []},
        {0: [1, 1]},
        {0: [9]},
        {0: [-1]},
        {1: [1]},
        {0: [1], 2: [1]},
        {0: [1], 1: [1, 2]},
        {0: [3]},
    ],
)
def test_a_bad_assignment_is_refused(assignments: dict[int, list[int]]) -> None:
    cluster = Cluster(brokers=3)
    cluster.fence(3)

    assert _code(cluster, assignments=assignments) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_partition_that_is_assigned_twice_is_refused() -> None:
    topic = a_topic(assignments={0: [1]})
    topic.assignments.append(CreateTopicsAssignment(0, [1]))

    (result,) = Cluster().create(topic)

    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_assignment_comes_without_counts() -> None:
    cluster = Cluster()

    assert _code(cluster, assignments={0: [1]}, partitions=1) == ErrorCode.INVALID_REQUEST
    assert _code(cluster, assignments={0: [1]}, factor=1) == ErrorCode.INVALID_REQUEST


# -- counts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [0, -2])
def test_a_count_of_partitions_must_be_positive(partitions: int) -> None:
    assert _code(Cluster(), partitions=partitions) == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 2])
def test_a_replication_factor_must_be_positive_and_reachable(factor: int) -> None:
    assert _code(Cluster(), factor=factor) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_without_an_active_broker_there_is_no_topic() -> None:
    cluster = Cluster()
    cluster.fence(1)

    assert _code(cluster) == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("counts", "codes"),
    [
        ((6000, 4000), [ErrorCode.NONE, ErrorCode.NONE]),
        ((6000, 4001), [ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION]),
        (
            (1, 2**31 - 1, 1),
            [ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION],
        ),
    ],
)
def test_request_for_more_than_ten_thousand_partitions_is_refused_as_a_whole(
    counts: tuple[int, ...], codes: list[int]
) -> None:
    cluster = Cluster()

    results = cluster.create(
        *(a_topic(f"t{number}", partitions=count) for number, count in enumerate(counts))
    )

    assert [result.error_code for result in results] == codes
    assert len(cluster.image.topics) == codes.count(0)


# -- topics that come by themselves --------------------------------------------------------------


def test_a_topic_that_is_used_gets_the_defaults() -> None:
    cluster = Cluster("num.partitions=4")

    response = cluster.carry_out(
        cluster.controller.create_topics(auto_creation(["a", "a", "b/"], cluster.config))
    )

    assert [(each.name, each.error_code) for each in response.topics] == [
        ("a", ErrorCode.NONE),
        ("b/", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert len(cluster.image.topics["a"].partitions) == 4


def test_the_offsets_topic_is_compacted_and_has_fifty_partitions() -> None:
    cluster = Cluster("num.partitions=4")

    cluster.carry_out(
        cluster.controller.create_topics(auto_creation(["__consumer_offsets"], cluster.config))
    )

    assert len(cluster.image.topics["__consumer_offsets"].partitions) == 50
    assert cluster.image.topic_config("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
