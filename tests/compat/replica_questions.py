"""What clients can ask the wrong broker of a cluster, or at the wrong time.

Three brokers. `third` was led by broker 3, which has stopped: broker 2 leads it in a later epoch.
`short` has lost one of its two replicas, and needs both. `gone` was on broker 3 alone.
"""

from typing import Any, Final, NamedTuple

from ledgerstone.records.builder import build_batch
from tests.compat.both_brokers import NO_ID, Case, FromSide, Side, topic_id

# Replicas of each topic, the leader first.
ASSIGNED: Final = {
    "whole": (1, 2, 3),
    "pair": (1, 2),
    "other": (2, 1),
    "third": (3, 2, 1),
    "short": (1, 3),
    "gone": (3,),
}
MIN_ISR: Final = {"short": "2"}
# Stopped before anything is asked.
STOPPED: Final = 3
LEADER: Final = 1
FOLLOWER: Final = 2
T0: Final = 1_700_000_000_000
GROUP: Final = "g"


class Question(NamedTuple):
    broker: int
    case: Case

    @property
    def name(self) -> str:
        return f"{self.case.name}, broker {self.broker}"


def produced(acks: int, topic: str, *, timeout_ms: int = 1500) -> dict[str, Any]:
    records = FromSide(lambda *_: build_batch([(T0, b"k", b"v", ())]))
    data = {"index": 0, "records": records}
    return {
        "acks": acks,
        "timeout_ms": timeout_ms,
        "topic_data": [{"name": topic, "topic_id": _id(topic), "partition_data": [data]}],
    }


def _id(topic: str) -> FromSide:
    def ident(side: Side, _: int) -> bytes:
        return next((key for key, each in side.topic_ids.items() if each == topic), NO_ID)

    return FromSide(ident)


def _fetch(topic: str, offset: int = 0, *, ident: Any = None, **more: Any) -> dict[str, Any]:
    asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    named = {"topic": topic, "topic_id": _id(topic) if ident is None else ident}
    return {"max_bytes": 1 << 20, "topics": [{**named, "partitions": [asked | more]}]}


def _list(topic: str, timestamp: int = -1, **more: Any) -> dict[str, Any]:
    asked = {"partition_index": 0, "timestamp": timestamp, **more}
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": [asked]}]}


def _epoch(topic: str, epoch: int, **more: Any) -> dict[str, Any]:
    asked = {"partition": 0, "leader_epoch": epoch, **more}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [asked]}]}


def _delete(topic: str, offset: int) -> dict[str, Any]:
    asked = {"partition_index": 0, "offset": offset}
    return {"timeout_ms": 1500, "topics": [{"name": topic, "partitions": [asked]}]}


def _each(case: Case, *brokers: int) -> list[Question]:
    return [Question(each, case) for each in brokers]


def _data_questions() -> list[Question]:
    found: list[Question] = []
    for topic in ASSIGNED:
        for offset in (0, 1, 900):
            case = Case(f"Fetch {topic} at {offset}", "Fetch", _fetch(topic, offset))
            found += _each(case, 1, 2)
        for name, timestamp in (("end", -1), ("start", -2), ("newest", -3)):
            case = Case(f"ListOffsets {topic}, {name}", "ListOffsets", _list(topic, timestamp))
            found += _each(case, 1, 2)
        for epoch in (0, 1, 9):
            case = Case(f"end of epoch {epoch} of {topic}", "OffsetForLeaderEpoch",
                        _epoch(topic, epoch))  # fmt: skip
            found += _each(case, 1, 2)
        producers = {"topics": [{"name": topic, "partition_indexes": [0]}]}
        found += _each(Case(f"DescribeProducers {topic}", "DescribeProducers", producers), 1, 2)
    return found


def _writes() -> list[Question]:
    """Last: followers learn of what they committed a moment later than the leader."""
    found: list[Question] = []
    for topic in ("whole", "other", "gone", "nowhere"):
        found += _each(Case(f"Produce to {topic}", "Produce", produced(-1, topic)), 1, 2)
        found += _each(Case(f"Produce to {topic}, acks=1", "Produce", produced(1, topic)), 2)
    return found


def _epoch_questions() -> list[Question]:
    found: list[Question] = []
    for topic in ("whole", "other", "third", "gone"):
        for epoch in (0, 1, 9):
            current = {"current_leader_epoch": epoch}
            fetch = Case(f"Fetch {topic} in epoch {epoch}", "Fetch",
                         _fetch(topic, **current), since=9)  # fmt: skip
            listed = Case(f"ListOffsets {topic} in epoch {epoch}", "ListOffsets",
                          _list(topic, **current), since=4)  # fmt: skip
            ended = Case(f"end of epoch 0 of {topic} in epoch {epoch}", "OffsetForLeaderEpoch",
                         _epoch(topic, 0, **current))  # fmt: skip
            for case in (fetch, listed, ended):
                found += _each(case, 1, 2)
    return found


def _other_questions() -> list[Question]:
    unknown = _fetch("", ident=NO_ID)
    twisted = _fetch("whole", ident=topic_id("other"))
    commit = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    committed = {"group_id": GROUP, "topics": [{"name": "whole", "partitions": [commit]}]}
    return [
        *_each(Case("Fetch of an unknown topic id", "Fetch", unknown, since=13), 1, 2),
        *_each(Case("Fetch by another topic's id", "Fetch", twisted, since=13), 1, 2),
        *_each(Case("Produce below min.insync.replicas", "Produce", produced(-1, "short")), 1),
        *_each(Case("Produce below it, acks=1", "Produce", produced(1, "short")), 1),
        *_each(Case("DeleteRecords on the leader", "DeleteRecords", _delete("pair", 0)), 1),
        *_each(Case("DeleteRecords on a follower", "DeleteRecords", _delete("whole", 1)), 2),
        *_each(Case("DeleteRecords with a replica away", "DeleteRecords", _delete("third", 0)), 2),
        *_each(Case("DeleteRecords without a leader", "DeleteRecords", _delete("gone", 1)), 1),
        # Which of the two coordinates the group depends on chance; the other one is asked.
        *_each(Case("OffsetCommit to another broker", "OffsetCommit", committed, since=8), 0),
        *_each(Case("Heartbeat to another broker", "Heartbeat",
                    {"group_id": GROUP, "generation_id": 1, "member_id": "m"}), 0),
        *_each(Case("LeaveGroup to another broker", "LeaveGroup",
                    {"group_id": GROUP, "members": [{"member_id": "m"}]}, since=3), 0),
        *_each(Case("OffsetFetch from another broker", "OffsetFetch",
                    {"group_id": GROUP, "groups": [{"group_id": GROUP, "topics": None}]},
                    since=8), 0),
        *_each(Case("DescribeGroups on another broker", "DescribeGroups", {"groups": [GROUP]}), 0),
        *(
            Question(broker, Case(f"Metadata of {each}", "Metadata",
                                  {"topics": [{"name": each}]}, since=9))
            for each in ASSIGNED
            for broker in (1, 2)
        ),
    ]  # fmt: skip


QUESTIONS: Final = [*_data_questions(), *_epoch_questions(), *_other_questions(), *_writes()]
