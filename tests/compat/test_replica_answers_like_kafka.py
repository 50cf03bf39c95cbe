"""What a leader and a follower answer, field by field beside Apache Kafka's.

Two clusters of two brokers are set up by the same requests, one of Kafka's and one of ours. Broker
1 leads two topics; 2 follows one of them and has no replica of the other. They are in two racks.
"""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from golden.cluster_plan import BROKER, COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.records.builder import build_batch
from tests.compat.both_brokers import Case, FromSide, Outcome, Side, differences, outcome, topic_id
from tests.compat.mixed import WITHOUT_NEW_GROUPS
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.nodes import KAFKA, LEDGERSTONE, Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]

LEADER: Final = 1
FOLLOWER: Final = 2
LOG: Final = "log"
ALONE: Final = "alone"
COUNT: Final = 3
T0: Final = 1_700_000_000_000
SETTINGS: Final = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "replica.lag.time.max.ms": "60000",
    "auto.create.topics.enable": "false",
}


def _records() -> FromSide:
    return FromSide(lambda *_: build_batch([(T0, b"k", b"v", ())]))


def _produce(topic: str = LOG) -> dict[str, Any]:
    data = {"index": 0, "records": _records()}
    named = {"name": topic, "topic_id": topic_id(topic), "partition_data": [data]}
    return {"acks": -1, "timeout_ms": 5000, "topic_data": [named]}


def _fetch(topic: str = LOG, offset: int = 0, **more: Any) -> dict[str, Any]:
    asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    named = {"topic": topic, "topic_id": topic_id(topic), "partitions": [asked | more]}
    return {"max_bytes": 1 << 20, "topics": [named]}


def _follow(replica_id: int, epoch: int = 0, **more: Any) -> dict[str, Any]:
    state = {"replica_id": replica_id, "replica_epoch": epoch}
    return _fetch(**more) | {"replica_id": replica_id, "replica_state": state}


def _list_offsets(topic: str = LOG, replica_id: int = -1) -> dict[str, Any]:
    asked = {"partition_index": 0, "timestamp": -1}
    return {"replica_id": replica_id, "topics": [{"name": topic, "partitions": [asked]}]}


def _epoch(topic: str) -> dict[str, Any]:
    asked = {"partition": 0, "leader_epoch": 0}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [asked]}]}


def _delete(topic: str) -> dict[str, Any]:
    asked = {"partition_index": 0, "offset": 1}
    return {"timeout_ms": 1000, "topics": [{"name": topic, "partitions": [asked]}]}


AT_FOLLOWER: Final = [
    *(
        case
        for topic, where in ((LOG, "a follower"), (ALONE, "a stranger"))
        for case in (
            Case(f"produce to {where}", "Produce", _produce(topic)),
            Case(f"fetch from {where}", "Fetch", _fetch(topic)),
            Case(
                f"fetch from {where}, committed",
                "Fetch",
                _fetch(topic) | {"isolation_level": 1},
            ),
            Case(
                f"fetch from {where}, later epoch",
                "Fetch",
                _fetch(topic, current_leader_epoch=7),
                since=9,
            ),
            Case(f"follow {where}", "Fetch", _follow(3, topic=topic)),
            Case(f"list offsets of {where}", "ListOffsets", _list_offsets(topic)),
            Case(f"debug offsets of {where}", "ListOffsets", _list_offsets(topic, -2)),
            Case(f"end of an epoch of {where}", "OffsetForLeaderEpoch", _epoch(topic)),
            Case(f"delete records of {where}", "DeleteRecords", _delete(topic)),
        )
    ),
    Case("fetch from a follower, at its end", "Fetch", _fetch(offset=COUNT)),
    Case("fetch from a follower, above its end", "Fetch", _fetch(offset=99)),
    Case("fetch from a follower in its rack", "Fetch", _fetch() | {"rack_id": "b"}, since=11),
]
AT_LEADER: Final = [
    Case("produce", "Produce", _produce(ALONE)),
    Case("fetch", "Fetch", _fetch()),
    Case("fetch in the leader's rack", "Fetch", _fetch() | {"rack_id": "a"}, since=11),
    Case("fetch in the follower's rack", "Fetch", _fetch() | {"rack_id": "b"}, since=11),
    Case(
        "fetch in the follower's rack, later epoch",
        "Fetch",
        _fetch(current_leader_epoch=7) | {"rack_id": "b"},
        since=11,
    ),
    Case("fetch in nobody's rack", "Fetch", _fetch() | {"rack_id": "c"}, since=11),
    Case(
        "fetch above the end in the follower's rack",
        "Fetch",
        _fetch(offset=99) | {"rack_id": "b"},
        since=11,
    ),
    # Broker epochs are known from version 15 on; this one is of a former life.
    Case("follow in a former life", "Fetch", _follow(FOLLOWER, 0), since=15),
    Case(
        "follow at a later epoch", "Fetch", _follow(FOLLOWER, -1, current_leader_epoch=7), since=9
    ),
    Case("follow above the end", "Fetch", _follow(FOLLOWER, -1, offset=99)),
    Case("follow, no such epoch", "Fetch", _follow(FOLLOWER, -1, last_fetched_epoch=5), since=12),
    Case(
        "follow, diverging",
        "Fetch",
        _follow(FOLLOWER, -1, offset=99, last_fetched_epoch=0),
        since=12,
    ),
    Case("follow as a stranger", "Fetch", _follow(9)),
    Case("follow a topic of others", "Fetch", _follow(FOLLOWER, -1, topic=ALONE)),
    Case("list offsets", "ListOffsets", _list_offsets()),
]

Answers = Mapping[tuple[str, int], Outcome]


def _cluster(work: Path, kind: str) -> Cluster:
    nodes = [
        PlannedNode(
            node_id=LEADER,
            roles=COMBINED,
            port=free_port(),
            controller_port=free_port(),
            settings={"broker.rack": "a"},
        ),
        PlannedNode(
            node_id=FOLLOWER,
            roles=BROKER,
            port=free_port(),
            controller_port=0,
            settings={"broker.rack": "b"},
        ),
    ]
    found = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=SETTINGS, features=WITHOUT_NEW_GROUPS),
        work=work,
        jars=fetch_jars(),
        kinds=dict.fromkeys((LEADER, FOLLOWER), kind),
    )
    found.format()
    return found


def _set_up(leader: Side, follower: Side) -> None:
    topics = [
        CreateTopicsRequestTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreateTopicsAssignment(partition_index=0, broker_ids=replicas)],
        )
        for name, replicas in ((LOG, [LEADER, FOLLOWER]), (ALONE, [LEADER]))
    ]
    said: Any = ask(leader.bootstrap, CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
    assert {each.error_code for each in said.topics} == {ErrorCode.NONE}, said
    for side in (leader, follower):
        wait_until(partial(_learn, side), "both know the topics", 30)
    for _ in range(COUNT):
        wait_until(lambda: _is_written(leader), "a record is written", 30)
    # It learns with its next fetch that they are committed.
    wait_until(lambda: _end_at(follower) == COUNT, "the follower has everything", 30)


def _learn(side: Side) -> bool:
    said: Any = ask(side.bootstrap, MetadataRequest(topics=None), 12)
    side.topic_ids |= {bytes(each.topic_id): each.name for each in said.topics}
    return {LOG, ALONE} <= set(side.topic_ids.values())


def _is_written(leader: Side) -> bool:
    said: Any = leader.ask(Case("write", "Produce", _produce()), 12)
    code: int = said.responses[0].partition_responses[0].error_code
    return code == ErrorCode.NONE


def _end_at(follower: Side) -> int:
    said: Any = follower.ask(Case("look", "Fetch", _fetch()), 12)
    end: int = said.responses[0].partitions[0].high_watermark
    return end


def _answers(work: Path, kind: str) -> Answers:
    with _cluster(work, kind) as cluster:
        cluster.start(LEADER)
        cluster.start(FOLLOWER)
        sides = [Side(kind, cluster[each].planned.bootstrap) for each in (LEADER, FOLLOWER)]
        _set_up(*sides)
        try:
            return {
                (case.name, version): outcome(side, case, version)
                for side, cases in zip(sides, (AT_LEADER, AT_FOLLOWER), strict=True)
                for case in cases
                for version in case.versions
            }
        finally:
            for side in sides:
                side.close()


def test_answers_are_those_of_kafka(tmp_path: Path) -> None:
    kafka, ours = (_answers(tmp_path / kind, kind) for kind in (KAFKA, LEDGERSTONE))

    found = [
        (*key, *difference)
        for key, theirs in kafka.items()
        for difference in differences(theirs, ours[key])
        # Kafka says less, and our words are our own.
        if not difference.path.endswith("error_message")
    ]

    assert len(kafka) > 200
    assert found == []
