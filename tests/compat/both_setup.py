"""What both brokers hold before they are compared: topics, records, a group with one member."""

from typing import Any

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.records.builder import build_batch
from tests.compat.answers_data import LOG, T0
from tests.compat.answers_groups import LONG_SESSION_MS, STABLE
from tests.compat.both_brokers import Case, Side, known
from tests.kit.broker import wait_until

TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    LOG: (1, {}),
    "two": (2, {}),
    # One for each version of Produce: where a batch lands must not depend on which were asked.
    **{f"target-{version}": (1, {}) for version in range(3, 14)},
    **{f"stamped-{version}": (1, {"message.timestamp.type": "LogAppendTime"})
       for version in range(3, 14)},
    "small": (1, {"max.message.bytes": "300"}),
    "short-segments": (1, {"segment.bytes": str(1 << 20), "max.message.bytes": str(1 << 23)}),
    "compacted": (1, {"cleanup.policy": "compact"}),
    "timely": (1, {"message.timestamp.before.max.ms": "1000",
                   "message.timestamp.after.max.ms": "1000"}),
    "with.dot": (1, {}),
}  # fmt: skip
RECORDS_PER_BATCH = 5
BATCHES = 4
DELETED_BELOW = 7


def set_up(side: Side) -> None:
    _share_defaults(side)
    _create_topics(side)
    _write(side)
    _join(side)
    _draw_producer_ids(side)


def _done(side: Side, api: str, version: int, fields: dict[str, Any]) -> Any:
    answer = side.ask(Case("set up", api, fields), version)
    assert answer is not None
    return answer


def _share_defaults(side: Side) -> None:
    """Kafka has this one set for all brokers from the start."""
    config = {"name": "min.insync.replicas", "config_operation": 0, "value": "1"}
    resource = {"resource_type": 4, "resource_name": "", "configs": [config]}
    answer = _done(side, "IncrementalAlterConfigs", 1, {"resources": [resource]})
    assert answer.responses[0].error_code == ErrorCode.NONE


def _draw_producer_ids(side: Side) -> None:
    """Kafka tells the first client that asks for a producer id to retry."""

    def is_there() -> bool:
        fields = {"transactional_id": None, "transaction_timeout_ms": 10}
        return bool(_done(side, "InitProducerId", 4, fields).error_code == ErrorCode.NONE)

    wait_until(is_there, "producer ids are there")


def _create_topics(side: Side) -> None:
    topics = [
        {
            "name": name,
            "num_partitions": count,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        for name, (count, configs) in TOPICS.items()
    ]
    answer = _done(side, "CreateTopics", 7, {"topics": topics, "timeout_ms": 30_000})
    assert [each.error_code for each in answer.topics] == [ErrorCode.NONE] * len(TOPICS)
    side.topic_ids |= {bytes(each.topic_id): each.name for each in answer.topics}


def _write(side: Side) -> None:
    def is_written(number: int) -> bool:
        first = number * RECORDS_PER_BATCH
        offsets = range(first, first + RECORDS_PER_BATCH)
        records = build_batch([(T0 + each, b"k%d" % each, b"value", ()) for each in offsets])
        data = [{"index": 0, "records": records}]
        topics = [{"name": LOG, "partition_data": data}]
        fields = {"acks": -1, "timeout_ms": 5000, "topic_data": topics}
        answer = _done(side, "Produce", 9, fields)
        return bool(answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE)

    for number in range(BATCHES):
        # Kafka's leader may not know yet that it leads.
        wait_until(lambda number=number: is_written(number), "the log is led")  # type: ignore[misc]
    below = [{"partition_index": 0, "offset": DELETED_BELOW}]
    fields = {"topics": [{"name": LOG, "partitions": below}], "timeout_ms": 5000}
    answer = _done(side, "DeleteRecords", 2, fields)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def _join(side: Side) -> None:
    def coordinator_is_there() -> bool:
        answer = _done(side, "FindCoordinator", 4, {"coordinator_keys": [STABLE]})
        if answer.coordinators[0].error_code:
            return False
        answer = _done(side, "OffsetFetch", 8, {"groups": [{"group_id": STABLE, "topics": None}]})
        return bool(answer.groups[0].error_code == ErrorCode.NONE)

    wait_until(coordinator_is_there, "the coordinator is there", 60.0)
    # Version 3 lets a member in without giving it an id first.
    fields: dict[str, Any] = {
        "group_id": STABLE,
        "session_timeout_ms": LONG_SESSION_MS,
        "rebalance_timeout_ms": LONG_SESSION_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIBED}],
    }
    answer = _done(side, "JoinGroup", 3, fields)
    assert answer.error_code == ErrorCode.NONE
    side.known["member"] = answer.member_id
    fields = {
        "group_id": STABLE,
        "generation_id": 1,
        "member_id": known("member"),
        "assignments": [{"member_id": known("member"), "assignment": b"all of it"}],
    }
    assert _done(side, "SyncGroup", 3, fields).error_code == ErrorCode.NONE


# A subscription to the log in the format of consumers, version 0: topics, no user data.
SUBSCRIBED = b"\0\0" + b"\0\0\0\1" + b"\0\3log" + b"\xff\xff\xff\xff"
