"""IncrementalAlterConfigs and AlterConfigs: what they do, and every reason to refuse."""

import pytest

from ledgerstone.metadata.config_changes import Operation
from ledgerstone.metadata.image import EVERY_BROKER, ConfigResource, ResourceType
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_configs import (
    AlterConfigsConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ledgerstone.protocol.messages.metadata_records import ConfigRecord
from tests.unit.metadata.cluster import Cluster, a_topic

SET, DELETE, APPEND, SUBTRACT = Operation
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER

Change = tuple[str, int, str | None]


def _cluster(*overrides: str, configs: dict[str, str | None] | None = None) -> Cluster:
    cluster = Cluster(*overrides)
    cluster.create(a_topic("t", configs=configs))
    return cluster


def _resource(
    *changes: Change, kind: int = TOPIC, name: str = "t"
) -> IncrementalAlterConfigsResource:
    configs = [IncrementalAlterConfigsConfig(*change) for change in changes]
    return IncrementalAlterConfigsResource(kind, name, configs)


def _alter(cluster: Cluster, *resources: IncrementalAlterConfigsResource) -> list[int]:
    request = IncrementalAlterConfigsRequest(resources=list(resources))
    response = cluster.carry_out(cluster.controller.incremental_alter_configs(request))
    named = [(each.resource_type, each.resource_name) for each in response.responses]
    assert named == [(each.resource_type, each.resource_name) for each in resources]
    return [each.error_code for each in response.responses]


# -- the four operations -------------------------------------------------------------------------


def test_set_and_delete_touch_the_named_keys_only() -> None:
    cluster = _cluster(configs={"retention.ms": "1", "segment.ms": "2"})

    codes = _alter(cluster, _resource(("retention.ms", DELETE, None), ("flush.ms", SET, "3")))

    assert codes == [ErrorCode.NONE]
    assert cluster.image.topic_config("t") == {"segment.ms": "2", "flush.ms": "3"}


def test_append_starts_from_the_inherited_value_and_adds_each_member_once() -> None:
    cluster = _cluster()

    assert _alter(cluster, _resource(("cleanup.policy", APPEND, "compact,delete"))) == [
        ErrorCode.NONE
    ]

    assert cluster.image.topic_config("t") == {"cleanup.policy": "delete,compact"}


def test_append_starts_from_the_default_of_the_broker() -> None:
    cluster = _cluster("log.cleanup.policy=compact")

    assert _alter(cluster, _resource(("cleanup.policy", APPEND, "delete"))) == [ErrorCode.NONE]

    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact,delete"}


def test_subtract_takes_members_away() -> None:
    cluster = _cluster(configs={"cleanup.policy": "compact,delete"})

    assert _alter(cluster, _resource(("cleanup.policy", SUBTRACT, "delete"))) == [ErrorCode.NONE]

    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}


def test_lists_of_a_broker_can_be_appended_to_as_well() -> None:
    cluster = _cluster()

    change = _resource(("log.cleanup.policy", APPEND, "compact"), kind=BROKER, name="1")

    assert _alter(cluster, change) == [ErrorCode.NONE]
    own = cluster.image.config_of(ConfigResource(BROKER, "1"))
    assert own == {"log.cleanup.policy": "delete,compact"}


def test_a_list_does_not_grow_longer_than_a_record_can_be_read() -> None:
    cluster, key = _cluster(), "leader.replication.throttled.replicas"
    first, second = (",".join(f"{each}:1" for each in range(a, a + 3000)) for a in (10_000, 20_000))

    assert _alter(cluster, _resource((key, SET, first))) == [ErrorCode.NONE]
    assert _alter(cluster, _resource((key, APPEND, second))) == [ErrorCode.INVALID_CONFIG]

    assert cluster.image.topic_config("t") == {key: first}


def test_only_what_differs_is_written() -> None:
    cluster = _cluster(configs={"retention.ms": "1"})
    request = IncrementalAlterConfigsRequest(
        resources=[
            _resource(
                ("retention.ms", SET, "1"), ("segment.ms", DELETE, None), ("flush.ms", SET, "2")
            )
        ]
    )

    decision = cluster.controller.incremental_alter_configs(request)

    assert decision.records == [ConfigRecord(TOPIC, "t", "flush.ms", "2")]


def test_validate_only_writes_nothing() -> None:
    cluster = _cluster()
    request = IncrementalAlterConfigsRequest(
        resources=[_resource(("flush.ms", SET, "1")), _resource(name="x")], validate_only=True
    )

    decision = cluster.controller.incremental_alter_configs(request)

    assert decision.records == []
    assert [each.error_code for each in decision.response.responses] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("no.such.key", SET, "1"), 40),
        (("no.such.key", APPEND, "1"), 40),
        (("retention.ms", SET, "soon"), 40),
        (("retention.ms", APPEND, "1"), 40),
        (("retention.ms", SUBTRACT, "1"), 40),
        (("cleanup.policy", APPEND, "shred"), 40),
        (("min.compaction.lag.ms", SET, str(2**63 - 1)), 0),
        (("retention.ms", SET, None), 42),
        (("cleanup.policy", APPEND, None), 42),
        (("retention.ms", 4, "1"), 42),
        (("retention.ms", -1, "1"), 42),
        (("", SET, "1"), 40),
        (("no.such.key", DELETE, None), 0),
    ],
)
def test_a_bad_change_is_refused_and_nothing_is_written(change: Change, code: int) -> None:
    cluster = _cluster()
    before = cluster.image

    assert _alter(cluster, _resource(change)) == [code]

    assert code == 0 or cluster.image.configs is before.configs


def test_settings_that_contradict_each_other_are_refused() -> None:
    cluster = _cluster(configs={"max.compaction.lag.ms": "10"})

    assert _alter(cluster, _resource(("min.compaction.lag.ms", SET, "11"))) == [
        ErrorCode.INVALID_CONFIG
    ]


def test_a_key_named_twice_is_refused() -> None:
    changes = (("flush.ms", SET, "1"), ("flush.ms", DELETE, None))

    assert _alter(_cluster(), _resource(*changes)) == [ErrorCode.INVALID_REQUEST]


def test_a_resource_named_twice_is_refused_both_times_and_the_others_go_on() -> None:
    cluster = _cluster()
    once = _resource(("flush.ms", SET, "1"))
    other = _resource(("log.flush.interval.ms", SET, "1"), kind=BROKER, name="")

    assert _alter(cluster, once, other, once) == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]

    assert list(cluster.image.configs) == [EVERY_BROKER]


def test_an_unknown_topic_is_said_before_anything_about_its_settings() -> None:
    change = _resource(("offset.metadata.max.bytes", SET, "1"), name="x")

    assert _alter(_cluster(), change) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(TOPIC, ""), (BROKER, "2"), (BROKER, "one"), (BROKER, "01"), (8, "1"), (32, ""), (99, "t")],
)
def test_only_topics_and_brokers_that_exist_have_settings(kind: int, name: str) -> None:
    codes = _alter(_cluster(), _resource(("log.retention.ms", SET, "1"), kind=kind, name=name))

    assert codes == [ErrorCode.INVALID_REQUEST]


def test_a_name_that_no_topic_can_have_is_said_before_that_there_is_none() -> None:
    change = ("retention.ms", SET, "1")

    codes = _alter(_cluster(), _resource(change, name="a b"), _resource(change, name="nowhere"))

    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# -- what is not built ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("remote.storage.enable", SET, "false"), 0),
        (("remote.storage.enable", SET, "true"), 40),
        (("remote.storage.enable", SET, "maybe"), 40),
        (("remote.log.copy.disable", SET, "true"), 0),
        (("remote.log.delete.on.disable", SET, "true"), 0),
        (("local.retention.ms", SET, "-2"), 0),
        (("local.retention.ms", SET, "5"), 0),
        (("local.retention.ms", SET, "-3"), 40),
        (("local.retention.bytes", SET, "-2"), 0),
        (("local.retention.bytes", SET, "-3"), 40),
        (("leader.replication.throttled.replicas", SET, ""), 0),
        (("leader.replication.throttled.replicas", SET, "*"), 0),
        (("leader.replication.throttled.replicas", SET, "0:1,1:1"), 0),
        (("leader.replication.throttled.replicas", APPEND, "0:1"), 0),
        (("leader.replication.throttled.replicas", SET, "none"), 40),
        (("follower.replication.throttled.replicas", SET, "0:x"), 40),
    ],
)
def test_a_setting_of_what_is_not_built_is_taken_where_it_asks_for_nothing(
    change: Change, code: int
) -> None:
    cluster = _cluster()

    assert _alter(cluster, _resource(change)) == [code]

    assert (change[0] in cluster.image.topic_config("t")) == (code == 0)


def test_tiered_storage_is_refused_with_the_reason() -> None:
    cluster = _cluster()
    request = IncrementalAlterConfigsRequest([_resource(("remote.storage.enable", SET, "true"))])

    answer = cluster.carry_out(cluster.controller.incremental_alter_configs(request)).responses[0]

    assert "tiered storage is not supported" in (answer.error_message or "")


# -- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("consumer.session.timeout.ms", SET, "50000"), 0),
        (("consumer.session.timeout.ms", SET, "1"), 40),
        (("consumer.session.timeout.ms", SET, "soon"), 40),
        (("consumer.session.timeout.ms", SET, None), 42),
        (("consumer.session.timeout.ms", APPEND, "1"), 40),
        (("consumer.heartbeat.interval.ms", SET, "4999"), 40),
        (("share.auto.offset.reset", SET, "by_duration:PT1H"), 0),
        (("share.auto.offset.reset", SET, "by_duration:1h"), 40),
        (("share.isolation.level", SET, "read_committed"), 0),
        (("share.isolation.level", SET, "none"), 40),
        (("share.delivery.count.limit", SET, "1"), 40),
        (("streams.num.standby.replicas", SET, "3"), 40),
        (("no.such.key", SET, "1"), 40),
        (("no.such.key", DELETE, None), 0),
    ],
)
def test_a_group_has_settings_before_it_exists(change: Change, code: int) -> None:
    cluster = _cluster()

    assert _alter(cluster, _resource(change, kind=ResourceType.GROUP, name="g")) == [code]

    given = cluster.image.config_of(ConfigResource(ResourceType.GROUP, "g"))
    is_set = code == 0 and change[1] == SET
    assert given == ({change[0]: change[2]} if is_set else {})


# -- brokers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("", ("log.retention.ms", SET, "1"), 0),
        ("1", ("log.retention.ms", SET, "1"), 0),
        ("1", ("log.retention.ms", SET, "soon"), 40),
        ("1", ("no.such.key", SET, "1"), 40),
        ("1", ("node.id", SET, "2"), 42),
        ("1", ("log.retention.hours", SET, "2"), 42),
        ("1", ("sasl.kerberos.min.time.before.relogin", SET, "58000"), 0),
        ("", ("sasl.kerberos.min.time.before.relogin", SET, "58000"), 42),
        ("1", ("log.cleaner.min.compaction.lag.ms", SET, "1"), 0),
        ("", ("min.insync.replicas", SET, "2"), 0),
        ("", ("min.insync.replicas", SET, "0"), 40),
        ("", ("min.insync.replicas", DELETE, None), 0),
        ("1", ("min.insync.replicas", SET, "2"), 40),
    ],
)
def test_a_broker_takes_what_can_change_while_it_runs(name: str, change: Change, code: int) -> None:
    assert _alter(_cluster(), _resource(change, kind=BROKER, name=name)) == [code]


def test_broker_defaults_no_topic_could_have_are_refused() -> None:
    cluster = _cluster("log.cleaner.max.compaction.lag.ms=10")

    change = _resource(("log.cleaner.min.compaction.lag.ms", SET, "11"), kind=BROKER, name="")

    assert _alter(cluster, change) == [ErrorCode.INVALID_CONFIG]


# -- the older request ---------------------------------------------------------------------------


def test_what_is_deleted_counts_no_more_when_broker_defaults_are_judged() -> None:
    cluster = _cluster("log.cleaner.max.compaction.lag.ms=10")
    low, high = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    both = _resource((low, SET, "5"), (high, SET, "100"), kind=BROKER, name="")
    assert _alter(cluster, both) == [ErrorCode.NONE]

    codes = [
        *_alter(cluster, _resource((low, SET, "50"), (high, DELETE, None), kind=BROKER, name="")),
        *_alter(cluster, _resource((low, SET, "7"), (high, DELETE, None), kind=BROKER, name="")),
    ]

    assert codes == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert cluster.image.config_of(EVERY_BROKER) == {low: "7"}


def test_deleting_the_cleaners_threads_is_judged_like_setting_them() -> None:
    cluster, key = _cluster(), "log.cleaner.threads"
    for threads in ("2", "4"):
        change = _resource((key, SET, threads), kind=BROKER, name="")
        assert _alter(cluster, change) == [ErrorCode.NONE]

    codes = _alter(cluster, _resource((key, DELETE, None), kind=BROKER, name=""))

    assert codes == [ErrorCode.INVALID_CONFIG]
    assert cluster.image.config_of(EVERY_BROKER) == {key: "4"}


def test_append_fails_no_controller_whose_file_contradicts_what_is_committed() -> None:
    cluster = _cluster("log.cleaner.max.compaction.lag.ms=10")
    cluster.commit([ConfigRecord(BROKER, "", "log.cleaner.min.compaction.lag.ms", "50")])

    codes = _alter(cluster, _resource(("cleanup.policy", APPEND, "compact")))

    assert codes == [ErrorCode.INVALID_CONFIG]


def test_append_for_all_brokers_does_not_start_from_what_one_has_of_its_own() -> None:
    cluster, key = _cluster(), "ledgerstone.tombstone.hold.groups"
    own = _resource((key, SET, "mine"), kind=BROKER, name="1")
    assert _alter(cluster, own) == [ErrorCode.NONE]

    codes = _alter(cluster, _resource((key, APPEND, "all"), kind=BROKER, name=""))

    assert codes == [ErrorCode.NONE]
    assert cluster.image.config_of(EVERY_BROKER) == {key: "all"}


def test_alter_configs_replaces_all_settings_of_the_resource() -> None:
    cluster = _cluster(configs={"retention.ms": "1", "segment.ms": "2"})
    resource = AlterConfigsResource(
        TOPIC, "t", [AlterConfigsConfig("segment.ms", "2"), AlterConfigsConfig("flush.ms", "3")]
    )

    decision = cluster.controller.alter_configs(AlterConfigsRequest(resources=[resource]))
    cluster.carry_out(decision)

    assert cluster.image.topic_config("t") == {"segment.ms": "2", "flush.ms": "3"}
    assert decision.records == [
        ConfigRecord(TOPIC, "t", "retention.ms", None),
        ConfigRecord(TOPIC, "t", "flush.ms", "3"),
    ]


@pytest.mark.parametrize(
    ("name", "configs", "code"),
    [
        ("t", [AlterConfigsConfig("flush.ms", None)], 42),
        ("t", [AlterConfigsConfig("flush.ms", "1"), AlterConfigsConfig("flush.ms", "2")], 42),
        ("t", [AlterConfigsConfig("no.such.key", "1")], 40),
        ("x", [], 3),
        ("t", [], 0),
    ],
)
def test_alter_configs_refuses_by_the_same_rules(
    name: str, configs: list[AlterConfigsConfig], code: int
) -> None:
    request = AlterConfigsRequest(resources=[AlterConfigsResource(TOPIC, name, configs)])

    decision = _cluster().controller.alter_configs(request)

    assert [each.error_code for each in decision.response.responses] == [code]
    assert decision.records == []


def test_alter_configs_can_be_validated_only() -> None:
    resource = AlterConfigsResource(TOPIC, "t", [AlterConfigsConfig("flush.ms", "3")])
    request = AlterConfigsRequest(resources=[resource], validate_only=True)

    assert _cluster().controller.alter_configs(request).records == []
