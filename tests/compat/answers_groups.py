"""What members of groups and their administrators can ask wrongly."""

from typing import Any

from tests.compat.both_brokers import Case, Keep, known

LOG = "log"
# A stable group with one member, made before the cases run; its member id is `member`.
STABLE = "stable"
LONG_SESSION_MS = 300_000


def _join(group: str, member: Any = "", **more: Any) -> dict[str, Any]:
    fields = {
        "group_id": group,
        "session_timeout_ms": LONG_SESSION_MS,
        "rebalance_timeout_ms": LONG_SESSION_MS,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"m"}],
    }
    return fields | more


def _in_group(group: str, member: Any, generation: int, **more: Any) -> dict[str, Any]:
    return {"group_id": group, "generation_id": generation, "member_id": member, **more}


def _leave(group: str, member: Any, **more: Any) -> dict[str, Any]:
    """One field until version 2, a list from version 3 on; both are filled in."""
    members = [{"member_id": member, **more}]
    return {"group_id": group, "member_id": member, "members": members}


def _commit(
    group: str, topic: str = LOG, partition: int = 0, *, metadata: str | None = "", **more: Any
) -> dict[str, Any]:
    asked = {"partition_index": partition, "committed_offset": 5, "committed_metadata": metadata}
    return {"group_id": group, "topics": [{"name": topic, "partitions": [asked]}], **more}


def _fetch(group: str, topics: Any, **more: Any) -> dict[str, Any]:
    named = (
        None
        if topics is None
        else [{"name": name, "partition_indexes": partitions} for name, partitions in topics]
    )
    groups = [{"group_id": group, "topics": named, **more}]
    return {"group_id": group, "topics": named, "groups": groups}


def _delete(group: str, topic: str, partition: int) -> dict[str, Any]:
    topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
    return {"group_id": group, "topics": topics}


MEMBERS = [
    Case("join, no group id", "JoinGroup", _join("")),
    Case("join, session too short", "JoinGroup", _join("g{v}", session_timeout_ms=10)),
    Case("join, session too long", "JoinGroup", _join("g{v}", session_timeout_ms=10**9)),
    Case("join, a member nobody knows", "JoinGroup", _join("g{v}", "somebody")),
    Case("join without protocols", "JoinGroup", _join("g{v}", protocols=[])),
    Case("join without a protocol type", "JoinGroup", _join("g{v}", protocol_type="")),
    Case(
        "join, first without an id",
        "JoinGroup",
        _join("new{v}"),
        since=4,
        keep=(Keep("new{v}", "member_id"),),
    ),
    Case("join, then with the id", "JoinGroup", _join("new{v}", known("new{v}")), since=4),
    Case("join the old way", "JoinGroup", _join("old{v}"), until=3),
    Case(
        "join a stable group of another type", "JoinGroup", _join(STABLE, protocol_type="connect")
    ),
    Case(
        "join a stable group with another protocol",
        "JoinGroup",
        _join(STABLE, protocols=[{"name": "other", "metadata": b""}]),
    ),
    Case("join a stable group as somebody", "JoinGroup", _join(STABLE, "somebody")),
    Case(
        "join, static member of another id",
        "JoinGroup",
        _join(STABLE, "somebody", group_instance_id="nobody"),
        since=5,
    ),
    Case("sync, no group id", "SyncGroup", _in_group("", "m", 1)),
    Case("sync, unknown group", "SyncGroup", _in_group("nobody", "m", 1)),
    Case("sync, unknown member", "SyncGroup", _in_group(STABLE, "m", 1)),
    Case("sync, another generation", "SyncGroup", _in_group(STABLE, known("member"), 9)),
    Case(
        "sync, another protocol",
        "SyncGroup",
        _in_group(STABLE, known("member"), 1, protocol_type="connect", protocol_name="range"),
        since=5,
    ),
    Case(
        "sync, another protocol name",
        "SyncGroup",
        _in_group(STABLE, known("member"), 1, protocol_type="consumer", protocol_name="other"),
        since=5,
    ),
    Case("sync, no protocol named", "SyncGroup", _in_group(STABLE, known("member"), 1), since=5),
    Case(
        "sync again",
        "SyncGroup",
        _in_group(STABLE, known("member"), 1, protocol_type="consumer", protocol_name="range"),
    ),
    Case(
        "sync, unknown instance",
        "SyncGroup",
        _in_group(
            STABLE,
            known("member"),
            1,
            group_instance_id="nobody",
            protocol_type="consumer",
            protocol_name="range",
        ),
        since=3,
    ),
    Case("heartbeat, no group id", "Heartbeat", _in_group("", "m", 1)),
    Case("heartbeat, unknown group", "Heartbeat", _in_group("nobody", "m", 1)),
    Case("heartbeat, unknown member", "Heartbeat", _in_group(STABLE, "m", 1)),
    Case("heartbeat, no member", "Heartbeat", _in_group(STABLE, "", 1)),
    Case("heartbeat, another generation", "Heartbeat", _in_group(STABLE, known("member"), 9)),
    Case("heartbeat", "Heartbeat", _in_group(STABLE, known("member"), 1)),
    Case(
        "heartbeat, unknown instance",
        "Heartbeat",
        _in_group(STABLE, known("member"), 1, group_instance_id="nobody"),
        since=3,
    ),
    Case("leave, no group id", "LeaveGroup", _leave("", "m")),
    Case("leave, unknown group", "LeaveGroup", _leave("nobody", "m")),
    Case("leave, unknown member", "LeaveGroup", _leave(STABLE, "m")),
    Case(
        "leave, unknown instance",
        "LeaveGroup",
        _leave(STABLE, "", group_instance_id="nobody"),
        since=3,
    ),
    Case(
        "leave, instance of another",
        "LeaveGroup",
        _leave(STABLE, known("member"), group_instance_id="nobody"),
        since=3,
    ),
    Case("leave with nobody", "LeaveGroup", {"group_id": STABLE}, since=3),
    Case("leave with nobody an unknown group", "LeaveGroup", {"group_id": "nobody"}, since=3),
]

OFFSETS = [
    Case("commit", "OffsetCommit", _commit("simple")),
    Case("commit, no group id", "OffsetCommit", _commit("")),
    Case("commit, unknown topic", "OffsetCommit", _commit("simple", "nowhere")),
    Case("commit, unknown partition", "OffsetCommit", _commit("simple", LOG, 9)),
    Case("commit, negative partition", "OffsetCommit", _commit("simple", LOG, -1)),
    Case("commit, illegal topic name", "OffsetCommit", _commit("simple", "a b")),
    Case("commit, null metadata", "OffsetCommit", _commit("simple", metadata=None)),
    Case("commit, much metadata", "OffsetCommit", _commit("simple", metadata="x" * 5000)),
    Case(
        "commit, some partitions exist",
        "OffsetCommit",
        {
            "group_id": "partly",
            "topics": [
                {
                    "name": LOG,
                    "partitions": [
                        {"partition_index": 0, "committed_offset": 6, "committed_metadata": "here"},
                        {"partition_index": 4, "committed_offset": 6, "committed_metadata": ""},
                    ],
                },
                {
                    "name": "nowhere",
                    "partitions": [
                        {"partition_index": 0, "committed_offset": 6, "committed_metadata": ""}
                    ],
                },
                {
                    "name": "two",
                    "partitions": [
                        {"partition_index": 1, "committed_offset": 3, "committed_metadata": "there"}
                    ],
                },
            ],
        },
    ),
    Case("commit nothing", "OffsetCommit", {"group_id": "simple"}),
    Case(
        "commit nothing to a stable group",
        "OffsetCommit",
        {"group_id": STABLE, "member_id": "m", "generation_id_or_member_epoch": 1},
    ),
    Case(
        "commit, generation of nobody",
        "OffsetCommit",
        _commit("nobody", generation_id_or_member_epoch=4, member_id="m"),
    ),
    Case(
        "commit, unknown member",
        "OffsetCommit",
        _commit(STABLE, generation_id_or_member_epoch=1, member_id="m"),
    ),
    Case(
        "commit, another generation",
        "OffsetCommit",
        _commit(STABLE, generation_id_or_member_epoch=9, member_id=known("member")),
    ),
    Case("commit from outside", "OffsetCommit", _commit(STABLE)),
    Case(
        "commit as a member",
        "OffsetCommit",
        _commit(STABLE, generation_id_or_member_epoch=1, member_id=known("member")),
    ),
    Case(
        "commit as a member, unknown topic",
        "OffsetCommit",
        _commit(STABLE, "nowhere", generation_id_or_member_epoch=1, member_id=known("member")),
    ),
    Case(
        "commit, unknown instance",
        "OffsetCommit",
        _commit(
            STABLE,
            generation_id_or_member_epoch=1,
            member_id=known("member"),
            group_instance_id="nobody",
        ),
        since=7,
    ),
    Case(
        "offsets of the partly committed",
        "OffsetFetch",
        _fetch("partly", [(LOG, [0, 4]), ("nowhere", [0]), ("two", [1])]),
    ),
    Case("offsets", "OffsetFetch", _fetch("simple", [(LOG, [0])])),
    Case("offsets, none committed", "OffsetFetch", _fetch("simple", [("two", [0, 1])])),
    Case("offsets, unknown topic", "OffsetFetch", _fetch("simple", [("nowhere", [0])])),
    Case("offsets, unknown partition", "OffsetFetch", _fetch("simple", [(LOG, [9])])),
    Case("offsets, all", "OffsetFetch", _fetch("simple", None), since=2),
    Case("offsets, unknown group", "OffsetFetch", _fetch("nobody", [(LOG, [0])])),
    Case("offsets, all of an unknown group", "OffsetFetch", _fetch("nobody", None), since=2),
    Case("offsets, no group id", "OffsetFetch", _fetch("", [(LOG, [0])])),
    Case("offsets, nothing wanted", "OffsetFetch", _fetch("simple", [])),
    Case("offsets, no groups", "OffsetFetch", {}, since=8),
    Case(
        "offsets, member nobody knows",
        "OffsetFetch",
        _fetch("simple", [(LOG, [0])], member_id="m", member_epoch=4),
        since=9,
    ),
    Case(
        "offsets, member of a stable group",
        "OffsetFetch",
        _fetch(STABLE, [(LOG, [0])], member_id="m", member_epoch=4),
        since=9,
    ),
    Case("delete offsets", "OffsetDelete", _delete("simple", LOG, 0)),
    Case("delete offsets, none there", "OffsetDelete", _delete("simple", "two", 0)),
    Case("delete offsets, unknown topic", "OffsetDelete", _delete("simple", "nowhere", 0)),
    Case("delete offsets, unknown partition", "OffsetDelete", _delete("simple", LOG, 9)),
    Case("delete offsets, unknown group", "OffsetDelete", _delete("nobody", LOG, 0)),
    Case("delete offsets, no group id", "OffsetDelete", _delete("", LOG, 0)),
    Case("delete offsets of a stable group", "OffsetDelete", _delete(STABLE, LOG, 0)),
    Case(
        "delete offsets of a stable group, another topic", "OffsetDelete", _delete(STABLE, "two", 0)
    ),
    Case("delete offsets of nothing", "OffsetDelete", {"group_id": "simple"}),
]

ADMINISTRATION = [
    Case("describe group, unknown", "DescribeGroups", {"groups": ["nobody"]}),
    Case("describe group, no id", "DescribeGroups", {"groups": [""]}),
    Case("describe group, stable", "DescribeGroups", {"groups": [STABLE]}),
    Case("describe group, simple", "DescribeGroups", {"groups": ["partly"]}),
    Case("describe group with operations", "DescribeGroups",
         {"groups": [STABLE], "include_authorized_operations": True}, since=3),
    Case("describe unknown group with operations", "DescribeGroups",
         {"groups": ["nobody"], "include_authorized_operations": True}, since=3),
    Case("describe no groups", "DescribeGroups", {}),
    Case("delete group, unknown", "DeleteGroups", {"groups_names": ["nobody"]}),
    Case("delete group, no id", "DeleteGroups", {"groups_names": [""]}),
    Case("delete group, stable", "DeleteGroups", {"groups_names": [STABLE]}),
    Case("delete no groups", "DeleteGroups", {}),
    Case("list groups of no state", "ListGroups", {"states_filter": ["Nonsense"]}, since=4),
    Case("list groups of no type", "ListGroups", {"types_filter": ["Nonsense"]}, since=5),
    Case("list stable groups", "ListGroups", {"states_filter": ["stable"]}, since=4),
    Case("find coordinator, group", "FindCoordinator",
         {"key": "simple", "key_type": 0, "coordinator_keys": ["simple"]}),
    Case("find coordinator, no such type", "FindCoordinator",
         {"key": "simple", "key_type": 7, "coordinator_keys": ["simple"]}, since=1),
    Case("find coordinator, negative type", "FindCoordinator",
         {"key": "simple", "key_type": -1, "coordinator_keys": ["simple"]}, since=1),
    Case("find coordinator, share", "FindCoordinator",
         {"key": "simple", "key_type": 2, "coordinator_keys": ["simple"]}, since=1),
    Case("find coordinator, share by partition", "FindCoordinator",
         {"key": "g:AAAAAAAAAAAAAAAAAAAAAQ:0", "key_type": 2,
          "coordinator_keys": ["g:AAAAAAAAAAAAAAAAAAAAAQ:0"]}, since=1),
    Case("find coordinator, no key", "FindCoordinator",
         {"key": "", "key_type": 0, "coordinator_keys": [""]}),
    Case("find no coordinator", "FindCoordinator", {}, since=4),
]  # fmt: skip

CASES = MEMBERS + OFFSETS + ADMINISTRATION
