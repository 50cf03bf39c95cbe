"""What administrators can ask wrongly about settings: of topics, brokers, groups."""

from typing import Any

from tests.compat.answers_topics import LOG, create
from tests.compat.both_brokers import Case

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def _alter(kind: int, name: str, *changes: tuple[str, int, str | None]) -> dict[str, Any]:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}


def _replace(kind: int, name: str, *changes: tuple[str, str | None]) -> dict[str, Any]:
    configs = [{"name": key, "value": value} for key, value in changes]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}


def _describe(kind: int, name: str, *keys: str, **more: Any) -> dict[str, Any]:
    resource = {
        "resource_type": kind,
        "resource_name": name,
        "configuration_keys": list(keys) or None,
    }
    return {"resources": [resource], **more}


SETTINGS = [
    Case(
        "alter, unknown topic",
        "IncrementalAlterConfigs",
        _alter(TOPIC, "nowhere", ("retention.ms", SET, "5")),
    ),
    Case(
        "alter, unknown key", "IncrementalAlterConfigs", _alter(TOPIC, LOG, ("no.such", SET, "5"))
    ),
    Case(
        "alter, bad value",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("retention.ms", SET, "soon")),
    ),
    Case(
        "alter, null value",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("retention.ms", SET, None)),
    ),
    Case(
        "alter, empty value",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("retention.ms", SET, "")),
    ),
    Case(
        "alter, key twice",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
    ),
    Case(
        "alter, append to a number",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("retention.ms", APPEND, "5")),
    ),
    Case(
        "alter, subtract from a number",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("retention.ms", SUBTRACT, "5")),
    ),
    Case(
        "alter, append to an unknown key",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("no.such", APPEND, "5")),
    ),
    Case(
        "alter, append a bad member",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("cleanup.policy", APPEND, "nonsense")),
    ),
    Case(
        "alter, append a null",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("cleanup.policy", APPEND, None)),
    ),
    Case(
        "alter, delete a key not set",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("retention.ms", DELETE, None)),
    ),
    Case(
        "alter, delete an unknown key",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("no.such", DELETE, None)),
    ),
    Case(
        "alter, no such operation",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("retention.ms", 9, "5")),
    ),
    Case(
        "alter, negative operation",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("retention.ms", -1, "5")),
    ),
    Case("alter, empty key", "IncrementalAlterConfigs", _alter(TOPIC, LOG, ("", SET, "5"))),
    Case(
        "alter, empty topic name",
        "IncrementalAlterConfigs",
        _alter(TOPIC, "", ("retention.ms", SET, "5")),
    ),
    Case(
        "alter, illegal topic name",
        "IncrementalAlterConfigs",
        _alter(TOPIC, "a b", ("retention.ms", SET, "5")),
    ),
    Case("alter nothing of a topic", "IncrementalAlterConfigs", _alter(TOPIC, LOG)),
    Case("alter nothing", "IncrementalAlterConfigs", {}),
    Case(
        "alter, resource twice",
        "IncrementalAlterConfigs",
        {
            "resources": [
                *_alter(TOPIC, LOG, ("retention.ms", SET, "5"))["resources"],
                *_alter(TOPIC, LOG, ("retention.ms", SET, "6"))["resources"],
            ]
        },
    ),
    Case(
        "alter, only asked",
        "IncrementalAlterConfigs",
        _alter(TOPIC, LOG, ("retention.ms", SET, "5")) | {"validate_only": True},
    ),
    Case(
        "alter, lags contradict",
        "IncrementalAlterConfigs",
        _alter(
            TOPIC, LOG, ("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "3")
        ),
    ),
    Case("alter, resource type 0", "IncrementalAlterConfigs", _alter(0, "x", ("a", SET, "b"))),
    Case("alter, resource type 7", "IncrementalAlterConfigs", _alter(7, "x", ("a", SET, "b"))),
    Case(
        "alter, broker that is no number",
        "IncrementalAlterConfigs",
        _alter(BROKER, "x", ("log.retention.ms", SET, "5")),
    ),
    Case(
        "alter, read-only broker key",
        "IncrementalAlterConfigs",
        _alter(BROKER, "1", ("broker.id", SET, "5")),
    ),
    Case(
        "alter, read-only key of all brokers",
        "IncrementalAlterConfigs",
        _alter(BROKER, "", ("log.dirs", SET, "5")),
    ),
    Case(
        "alter, one broker's key for all",
        "IncrementalAlterConfigs",
        _alter(BROKER, "", ("listeners", SET, "PLAINTEXT://:1")),
    ),
    Case(
        "alter, bad broker value",
        "IncrementalAlterConfigs",
        _alter(BROKER, "1", ("log.retention.ms", SET, "soon")),
    ),
    Case(
        "alter, bad value for all",
        "IncrementalAlterConfigs",
        _alter(BROKER, "", ("log.retention.ms", SET, "soon")),
    ),
    Case(
        "alter, broker key",
        "IncrementalAlterConfigs",
        _alter(BROKER, "1", ("log.cleaner.backoff.ms", SET, "301")),
    ),
    Case(
        "alter, broker key twice",
        "IncrementalAlterConfigs",
        _alter(
            BROKER, "1", ("log.cleaner.backoff.ms", SET, "1"), ("log.cleaner.backoff.ms", SET, "2")
        ),
    ),
    Case(
        "alter, all brokers, null",
        "IncrementalAlterConfigs",
        _alter(BROKER, "", ("log.cleaner.backoff.ms", SET, None)),
    ),
    Case(
        "alter, all brokers in sync",
        "IncrementalAlterConfigs",
        _alter(BROKER, "", ("min.insync.replicas", SET, "2")),
    ),
    Case(
        "describe, all brokers in sync",
        "DescribeConfigs",
        _describe(BROKER, "", "min.insync.replicas", include_synonyms=True),
    ),
    Case(
        "describe, in sync by default of all",
        "DescribeConfigs",
        _describe(TOPIC, LOG, "min.insync.replicas", include_synonyms=True),
    ),
    Case(
        "describe, in sync of the broker",
        "DescribeConfigs",
        _describe(BROKER, "1", "min.insync.replicas", include_synonyms=True),
    ),
    Case(
        "alter, one broker in sync",
        "IncrementalAlterConfigs",
        _alter(BROKER, "1", ("min.insync.replicas", SET, "3")),
    ),
    Case(
        "alter, all brokers, nobody in sync",
        "IncrementalAlterConfigs",
        _alter(BROKER, "", ("min.insync.replicas", SET, "0")),
    ),
    Case(
        "alter, all brokers in sync again",
        "IncrementalAlterConfigs",
        _alter(BROKER, "", ("min.insync.replicas", DELETE, None)),
    ),
    Case(
        "alter, all brokers in sync as before",
        "IncrementalAlterConfigs",
        _alter(BROKER, "", ("min.insync.replicas", SET, "1")),
    ),
    Case(
        "replace, unknown topic", "AlterConfigs", _replace(TOPIC, "nowhere", ("retention.ms", "5"))
    ),
    Case("replace, unknown key", "AlterConfigs", _replace(TOPIC, LOG, ("no.such", "5"))),
    Case("replace, bad value", "AlterConfigs", _replace(TOPIC, LOG, ("retention.ms", "soon"))),
    Case("replace, null value", "AlterConfigs", _replace(TOPIC, LOG, ("retention.ms", None))),
    Case(
        "replace, key twice",
        "AlterConfigs",
        _replace(TOPIC, "two", ("retention.ms", "5"), ("retention.ms", "6")),
    ),
    Case("replace, resource type 7", "AlterConfigs", _replace(7, LOG, ("retention.ms", "5"))),
    Case("replace, empty topic name", "AlterConfigs", _replace(TOPIC, "", ("retention.ms", "5"))),
    Case("replace nothing of a topic", "AlterConfigs", _replace(TOPIC, "two")),
    Case("describe, unknown topic", "DescribeConfigs", _describe(TOPIC, "nowhere")),
    Case("describe, illegal topic name", "DescribeConfigs", _describe(TOPIC, "a b")),
    Case("describe, empty topic name", "DescribeConfigs", _describe(TOPIC, "")),
    Case("describe, unknown key", "DescribeConfigs", _describe(TOPIC, LOG, "no.such")),
    Case("describe, one key", "DescribeConfigs", _describe(TOPIC, LOG, "retention.bytes")),
    Case(
        "describe, one key with synonyms",
        "DescribeConfigs",
        _describe(TOPIC, "set-7", "cleanup.policy", include_synonyms=True),
    ),
    Case("describe, broker that is no number", "DescribeConfigs", _describe(BROKER, "x")),
    Case("describe, another broker", "DescribeConfigs", _describe(BROKER, "77")),
    Case("describe, broker key", "DescribeConfigs", _describe(BROKER, "1", "num.partitions")),
    Case("describe, resource type 0", "DescribeConfigs", _describe(0, "x")),
    Case("describe, resource type 7", "DescribeConfigs", _describe(7, "x")),
    Case("describe, client metrics", "DescribeConfigs", _describe(CLIENT_METRICS, "x")),
    Case(
        "describe, client metrics without a name", "DescribeConfigs", _describe(CLIENT_METRICS, "")
    ),
    Case("describe, logger of another broker", "DescribeConfigs", _describe(LOGGER, "77")),
    Case("describe, logger of no broker", "DescribeConfigs", _describe(LOGGER, "")),
    Case("describe nothing", "DescribeConfigs", {}),
]

# Settings that belong to what is not built: Kafka takes them at values that ask for nothing.
TIERED = (
    [
        Case(
            f"create, {key}={value}",
            "CreateTopics",
            create(f"tier-{index}-{{v}}", configs={key: value}),
            since=7,
        )
        for index, (key, value) in enumerate(
            [
                ("remote.storage.enable", "false"),
                ("remote.storage.enable", "true"),
                ("remote.log.copy.disable", "false"),
                ("remote.log.copy.disable", "true"),
                ("remote.log.delete.on.disable", "false"),
                ("remote.log.delete.on.disable", "true"),
                ("local.retention.ms", "-2"),
                ("local.retention.ms", "-1"),
                ("local.retention.ms", "5"),
                ("local.retention.ms", "99999999999"),
                ("local.retention.ms", "-3"),
                ("local.retention.bytes", "-2"),
                ("local.retention.bytes", "-1"),
                ("local.retention.bytes", "5"),
                ("local.retention.bytes", "-3"),
                ("leader.replication.throttled.replicas", ""),
                ("leader.replication.throttled.replicas", "*"),
                ("leader.replication.throttled.replicas", "0:1,1:1"),
                ("leader.replication.throttled.replicas", "none"),
                ("leader.replication.throttled.replicas", "nonsense"),
                ("follower.replication.throttled.replicas", ""),
                ("follower.replication.throttled.replicas", "*"),
                ("follower.replication.throttled.replicas", "0:1"),
                ("follower.replication.throttled.replicas", "0:x"),
                ("remote.storage.enable", "maybe"),
            ]
        )
    ]
    + [
        Case(
            f"alter, {key}={value} by {operation}",
            "IncrementalAlterConfigs",
            _alter(TOPIC, LOG, (key, operation, value)),
        )
        for key, operation, value in [
            ("remote.storage.enable", SET, "false"),
            ("remote.storage.enable", SET, "true"),
            ("remote.log.copy.disable", SET, "true"),
            ("remote.log.copy.disable", DELETE, None),
            ("remote.log.delete.on.disable", SET, "true"),
            ("remote.log.delete.on.disable", DELETE, None),
            ("local.retention.ms", SET, "7"),
            ("local.retention.bytes", SET, "-2"),
            ("leader.replication.throttled.replicas", SET, "0:1"),
            ("leader.replication.throttled.replicas", APPEND, "1:1"),
            ("follower.replication.throttled.replicas", SUBTRACT, "1:1"),
            ("leader.replication.throttled.replicas", SET, "0-1"),
        ]
    ]
    + [
        Case(
            f"describe, {key}", "DescribeConfigs", _describe(TOPIC, LOG, key, include_synonyms=True)
        )
        for key in [
            "remote.storage.enable",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "local.retention.ms",
            "local.retention.bytes",
            "leader.replication.throttled.replicas",
            "follower.replication.throttled.replicas",
        ]
    ]
)

_GROUP_CHANGES: list[tuple[str, int, str | None]] = [
    ("consumer.session.timeout.ms", SET, "50000"),
    ("consumer.session.timeout.ms", SET, "1"),
    ("consumer.session.timeout.ms", SET, "soon"),
    ("consumer.session.timeout.ms", SET, "900000000"),
    ("consumer.session.timeout.ms", SET, None),
    ("consumer.session.timeout.ms", APPEND, "1"),
    ("consumer.session.timeout.ms", DELETE, None),
    ("consumer.heartbeat.interval.ms", SET, "6000"),
    ("consumer.heartbeat.interval.ms", SET, "1"),
    ("consumer.assignment.interval.ms", SET, "1000"),
    ("consumer.assignor.offload.enable", SET, "true"),
    ("consumer.assignment.offload.enable", SET, "true"),
    ("share.session.timeout.ms", SET, "45000"),
    ("share.heartbeat.interval.ms", SET, "5000"),
    ("share.record.lock.duration.ms", SET, "30000"),
    ("share.record.lock.duration.ms", SET, "1"),
    ("share.auto.offset.reset", SET, "earliest"),
    ("share.auto.offset.reset", SET, "by_duration:PT1H"),
    ("share.auto.offset.reset", SET, "nonsense"),
    ("share.isolation.level", SET, "read_committed"),
    ("share.isolation.level", SET, "nonsense"),
    ("share.delivery.count.limit", SET, "5"),
    ("share.delivery.count.limit", SET, "1"),
    ("share.partition.max.record.locks", SET, "2000"),
    ("share.renew.acknowledge.enable", SET, "false"),
    ("share.assignment.interval.ms", SET, "1000"),
    ("share.assignor.offload.enable", SET, "true"),
    ("streams.session.timeout.ms", SET, "45000"),
    ("streams.heartbeat.interval.ms", SET, "5000"),
    ("streams.num.standby.replicas", SET, "1"),
    ("streams.num.standby.replicas", SET, "9"),
    ("streams.num.warmup.replicas", SET, "1"),
    ("streams.initial.rebalance.delay.ms", SET, "3000"),
    ("streams.assignment.interval.ms", SET, "1000"),
    ("streams.task.offset.interval.ms", SET, "60000"),
    ("streams.assignor.offload.enable", SET, "true"),
    ("no.such", SET, "1"),
    ("no.such", DELETE, None),
]
GROUPS = [
    Case(
        f"alter group, {key}={value} by {operation}",
        "IncrementalAlterConfigs",
        _alter(GROUP, "grouped", (key, operation, value)),
    )
    for key, operation, value in _GROUP_CHANGES
] + [
    Case(
        "alter group, no name",
        "IncrementalAlterConfigs",
        _alter(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
    ),
    Case(
        "alter group, session below heartbeat",
        "IncrementalAlterConfigs",
        _alter(
            GROUP,
            "grouped",
            ("consumer.session.timeout.ms", SET, "45000"),
            ("consumer.heartbeat.interval.ms", SET, "15000"),
        ),
    ),
    Case(
        "alter group, heartbeat above session",
        "IncrementalAlterConfigs",
        _alter(
            GROUP,
            "grouped-2",
            ("share.session.timeout.ms", SET, "45000"),
            ("share.heartbeat.interval.ms", SET, "15000"),
        ),
    ),
    Case(
        "alter group, only asked",
        "IncrementalAlterConfigs",
        _alter(GROUP, "asked", ("consumer.session.timeout.ms", SET, "50000"))
        | {"validate_only": True},
    ),
    Case(
        "replace group",
        "AlterConfigs",
        _replace(GROUP, "replaced", ("consumer.session.timeout.ms", "50000")),
    ),
    Case("describe group", "DescribeConfigs", _describe(GROUP, "grouped", include_synonyms=True)),
    Case(
        "describe group with settings of none",
        "DescribeConfigs",
        _describe(GROUP, "without", include_synonyms=True),
    ),
    Case("describe group, no name", "DescribeConfigs", _describe(GROUP, "")),
    Case(
        "describe group, one key",
        "DescribeConfigs",
        _describe(GROUP, "replaced", "consumer.session.timeout.ms", include_synonyms=True),
    ),
    Case("list group resources", "ListConfigResources", {"resource_types": [GROUP]}, since=1),
    Case(
        "list client metrics", "ListConfigResources", {"resource_types": [CLIENT_METRICS]}, since=1
    ),
    Case("list resources, no such type", "ListConfigResources", {"resource_types": [7]}, since=1),
    Case("list broker resources", "ListConfigResources", {"resource_types": [BROKER]}, since=1),
]

CASES = SETTINGS + TIERED + GROUPS
