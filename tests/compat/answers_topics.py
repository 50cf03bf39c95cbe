"""What administrators can ask wrongly about topics, partitions and their records."""

from collections.abc import Mapping
from typing import Any

from tests.compat.both_brokers import NO_ID, Case, topic_id

LOG = "log"
NOTHING: Mapping[str, str | None] = {}


def create(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    assign: Any = (),
    configs: Mapping[str, str | None] = NOTHING,
) -> dict[str, Any]:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [{"partition_index": index, "broker_ids": ids} for index, ids in assign],
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }
    return {"topics": [topic], "timeout_ms": 10_000}


def _partitions(name: str, count: int, assignments: Any = None) -> dict[str, Any]:
    rows = None if assignments is None else [{"broker_ids": each} for each in assignments]
    return {"topics": [{"name": name, "count": count, "assignments": rows}], "timeout_ms": 10_000}


def _by_name(name: str) -> dict[str, Any]:
    return {"topic_names": [name], "topics": [{"name": name}], "timeout_ms": 10_000}


def _by_id(ident: Any, name: str | None = None) -> dict[str, Any]:
    return {"topics": [{"name": name, "topic_id": ident}], "timeout_ms": 10_000}


def _below(topic: str, partition: int, offset: int) -> dict[str, Any]:
    asked = {"partition_index": partition, "offset": offset}
    return {"topics": [{"name": topic, "partitions": [asked]}], "timeout_ms": 10_000}


CASES = [
    Case("create", "CreateTopics", create("made-{v}")),
    Case("create, exists", "CreateTopics", create(LOG)),
    Case("create, illegal name", "CreateTopics", create("a b")),
    Case("create, empty name", "CreateTopics", create("")),
    Case("create, dots", "CreateTopics", create("..")),
    Case("create, long name", "CreateTopics", create("x" * 250)),
    Case("create, colliding name", "CreateTopics", create("with_dot")),
    Case("create, cluster metadata", "CreateTopics", create("__cluster_metadata")),
    Case("create, no partitions", "CreateTopics", create("made", 0)),
    Case("create, negative partitions", "CreateTopics", create("made", -2)),
    Case("create, factor 0", "CreateTopics", create("made", 1, 0)),
    Case("create, factor too large", "CreateTopics", create("made", 1, 5)),
    Case("create, factor below", "CreateTopics", create("made", 1, -2)),
    Case("create by defaults", "CreateTopics", create("default-{v}", -1, -1), since=4),
    Case("create, unknown setting", "CreateTopics", create("made", configs={"no.such": "1"})),
    Case("create, bad setting", "CreateTopics", create("made", configs={"retention.ms": "soon"})),
    Case(
        "create, setting out of range",
        "CreateTopics",
        create("made", configs={"segment.bytes": "1"}),
    ),
    Case("create, null setting", "CreateTopics", create("made", configs={"retention.ms": None})),
    Case("create, only asked", "CreateTopics", create("asked") | {"validate_only": True}),
    Case(
        "create with settings",
        "CreateTopics",
        create("set-{v}", configs={"cleanup.policy": "compact", "retention.ms": "5"}),
    ),
    Case("create by assignment", "CreateTopics", create("by-hand-{v}", -1, -1, assign=[(0, [1])])),
    Case("create, assignment and count", "CreateTopics", create("m", 1, 1, assign=[(0, [1])])),
    Case("create, unknown broker", "CreateTopics", create("m", -1, -1, assign=[(0, [77])])),
    Case("create, broker twice", "CreateTopics", create("m", -1, -1, assign=[(0, [1, 1])])),
    Case("create, no replicas", "CreateTopics", create("m", -1, -1, assign=[(0, [])])),
    Case("create, assignment with a gap", "CreateTopics", create("m", -1, -1, assign=[(1, [1])])),
    Case(
        "create twice",
        "CreateTopics",
        {"topics": [*create("twin")["topics"], *create("twin")["topics"]]},
    ),
    Case("create nothing", "CreateTopics", {}),
    Case("delete, unknown", "DeleteTopics", _by_name("nowhere")),
    Case("delete, illegal name", "DeleteTopics", _by_name("a b")),
    Case("delete, unknown id", "DeleteTopics", _by_id(NO_ID), since=6),
    Case("delete, neither", "DeleteTopics", _by_id(bytes(16)), since=6),
    Case("delete, both", "DeleteTopics", _by_id(topic_id(LOG), LOG), since=6),
    Case(
        "delete, twice",
        "DeleteTopics",
        {"topic_names": [LOG, LOG], "topics": [{"name": LOG}, {"name": LOG}]},
    ),
    Case("delete", "DeleteTopics", _by_name("set-5"), since=6),
    Case("delete nothing", "DeleteTopics", {}),
    Case("partitions, unknown topic", "CreatePartitions", _partitions("nowhere", 5)),
    Case("partitions, fewer", "CreatePartitions", _partitions("two", 1)),
    Case("partitions, as many", "CreatePartitions", _partitions("two", 2)),
    Case("partitions, none", "CreatePartitions", _partitions("two", 0)),
    Case("partitions, below", "CreatePartitions", _partitions("two", -1)),
    Case(
        "partitions, only asked",
        "CreatePartitions",
        _partitions("two", 4) | {"validate_only": True},
    ),
    Case("partitions, unknown broker", "CreatePartitions", _partitions("two", 3, [[77]])),
    Case("partitions, too many rows", "CreatePartitions", _partitions("two", 3, [[1], [1]])),
    Case("partitions, no rows", "CreatePartitions", _partitions("two", 3, [])),
    Case("partitions, broker twice", "CreatePartitions", _partitions("two", 3, [[1, 1]])),
    Case("partitions, no replicas", "CreatePartitions", _partitions("two", 3, [[]])),
    Case(
        "partitions, twice",
        "CreatePartitions",
        {"topics": [*_partitions("two", 3)["topics"], *_partitions("two", 3)["topics"]]},
    ),
    Case("delete records, unknown topic", "DeleteRecords", _below("nowhere", 0, 1)),
    Case("delete records, unknown partition", "DeleteRecords", _below(LOG, 9, 1)),
    Case("delete records, above the end", "DeleteRecords", _below(LOG, 0, 900)),
    Case("delete records, below zero", "DeleteRecords", _below(LOG, 0, -2)),
    Case("delete records, below the start", "DeleteRecords", _below(LOG, 0, 2)),
    Case("delete records, compacted", "DeleteRecords", _below("compacted", 0, 0)),
    Case("delete records, internal", "DeleteRecords", _below("__consumer_offsets", 0, 0)),
    Case("delete records of nothing", "DeleteRecords", {"timeout_ms": 1000}),
]
