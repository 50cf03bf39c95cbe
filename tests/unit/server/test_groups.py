"""Groups through the whole broker: records before answers, waiting members, the offsets topic."""

import errno

import pytest

from ledgerstone.coordinator import describing, shard
from ledgerstone.coordinator.group_state import GroupState
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.join_group import JoinGroupResponse
from ledgerstone.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
)
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from ledgerstone.protocol.messages.sync_group import (
    SyncGroupAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ledgerstone.server.http.monitor import sample_slices
from ledgerstone.types import INT64_MAX
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import (
    TOPIC,
    commit_offset,
    committed_offset,
    create_topic,
    delete_topic,
    exposition,
    join,
)

GROUP = "readers"


def first_join(client: Client) -> JoinGroupResponse:
    """Version 3 gives a member its id while it joins; a new group waits for no time at all."""
    client.send(join(GROUP), 3)
    client.machine.advance(0)
    return client.take(JoinGroupResponse)


def sync(joined: JoinGroupResponse, *members: str) -> SyncGroupRequest:
    assignments = [SyncGroupAssignment(member_id=each, assignment=b"part") for each in members]
    return SyncGroupRequest(
        group_id=GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )


def leave(member_id: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=GROUP, members=[LeaveGroupRequestMember(member_id=member_id)])


def two_members(machine: InProcess) -> tuple[Client, Client, JoinGroupResponse, JoinGroupResponse]:
    """Both have joined the second generation; nobody has synced it."""
    leader, follower = machine.connect(), machine.connect()
    first = first_join(leader)
    follower.send(join(GROUP), 3)
    leader.send(join(GROUP, first.member_id), 3)
    return leader, follower, leader.take(JoinGroupResponse), follower.take(JoinGroupResponse)


def test_follower_waits_in_sync_until_the_leader_has_assigned(machine: InProcess) -> None:
    leader, follower, first, second = two_members(machine)

    follower.send(sync(second))
    waits = follower.is_waiting
    leader.send(sync(first, first.member_id, second.member_id))

    assert waits
    assert follower.take(SyncGroupResponse).assignment == b"part"
    assert leader.take(SyncGroupResponse).error_code == ErrorCode.NONE


def test_member_who_leaves_behind_its_waiting_sync_frees_who_waits_for_it(
    machine: InProcess,
) -> None:
    """The leader's join parks, which answers the follower's sync; the leave that was pipelined
    behind that sync then completes the very join that is still being handled."""
    leader, follower, first, second = two_members(machine)
    sync_id, sync_frame = follower.frame(sync(second))
    leave_id, leave_frame = follower.frame(leave(second.member_id))
    follower.feed(sync_frame + leave_frame)

    leader.send(join(GROUP, first.member_id, topics=b"changed"), 3)

    assert [correlation_id for correlation_id, _ in follower.answers] == [sync_id, leave_id]
    assert follower.take(SyncGroupResponse).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.take(LeaveGroupResponse).members[0].error_code == ErrorCode.NONE
    joined = leader.take(JoinGroupResponse)
    assert [each.member_id for each in joined.members] == [first.member_id]
    beat = HeartbeatRequest(
        group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id
    )
    leader.send(sync(joined, joined.member_id))
    assert leader.take(SyncGroupResponse).error_code == ErrorCode.NONE
    assert leader.ask(beat, HeartbeatResponse).error_code == ErrorCode.NONE


def test_members_that_stop_beating_are_expelled_by_the_virtual_clock(machine: InProcess) -> None:
    leader, _, first, second = two_members(machine)
    leader.send(sync(first, first.member_id, second.member_id))
    leader.take(SyncGroupResponse)

    machine.advance(10_001)
    described = leader.ask(DescribeGroupsRequest(groups=[GROUP]), DescribeGroupsResponse)

    assert described.groups[0].group_state == "Empty"


def test_disconnect_of_a_joining_member_leaves_its_answer_with_nobody(machine: InProcess) -> None:
    leader = machine.connect()
    first = first_join(leader)
    follower = machine.connect()
    follower.send(join(GROUP), 3)

    follower.leave()
    leader.send(join(GROUP, first.member_id), 3)

    assert leader.take(JoinGroupResponse).generation_id == 2
    assert follower.answers == []


def test_offsets_are_kept_over_kill_and_power_loss_of_synced_logs(machine: InProcess) -> None:
    client = machine.connect()
    create_topic(client)
    code = commit_offset(client, GROUP, 17)

    machine.kill()
    after_kill = committed_offset(machine.connect(), GROUP)
    for partition in machine.broker.partitions:
        partition.log.flush()
    machine.lose_power("none")

    assert code == ErrorCode.NONE
    assert after_kill == 17
    assert committed_offset(machine.connect(), GROUP) == 17


def test_unknown_group_has_no_offsets_and_that_is_no_error(client: Client) -> None:
    assert committed_offset(client, "nobody") is None


def test_commit_that_the_disk_refuses_is_not_acknowledged_and_not_remembered(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    commit_offset(client, GROUP, 17)
    machine.fs.fail_matching("pwrite", "*/__consumer_offsets-*/*.log", errno.ENOSPC)

    code = commit_offset(client, GROUP, 18)

    assert code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert committed_offset(client, GROUP) == 17


def test_retention_time_beyond_all_time_is_kept_for_all_time(client: Client) -> None:
    create_topic(client)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
    request = OffsetCommitRequest(group_id=GROUP, retention_time_ms=INT64_MAX, topics=topics)

    answer = client.ask(request, OffsetCommitResponse, 3)

    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert committed_offset(client, GROUP) == 3


def test_offsets_of_a_deleted_topic_are_forgotten(client: Client) -> None:
    create_topic(client)
    commit_offset(client, GROUP, 17)

    delete_topic(client)

    assert committed_offset(client, GROUP) is None


def test_offsets_can_be_deleted_one_by_one(client: Client) -> None:
    create_topic(client)
    commit_offset(client, GROUP, 17)
    topics = [
        OffsetDeleteRequestTopic(
            name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
    ]

    answer = client.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), OffsetDeleteResponse)

    assert answer.error_code == ErrorCode.NONE
    assert committed_offset(client, GROUP) is None


def test_groups_of_every_shard_are_listed_described_and_deleted(client: Client) -> None:
    create_topic(client)
    names = [f"group-{number}" for number in range(6)]
    for name in names:
        commit_offset(client, name, 1)

    listed = client.ask(ListGroupsRequest(), ListGroupsResponse)
    described = client.ask(DescribeGroupsRequest(groups=names), DescribeGroupsResponse)
    deleted = client.ask(DeleteGroupsRequest(groups_names=[*names, "no"]), DeleteGroupsResponse)
    left = client.ask(ListGroupsRequest(), ListGroupsResponse)

    assert sorted(each.group_id for each in listed.groups) == names
    assert [each.group_id for each in described.groups] == names
    assert [each.error_code for each in deleted.results] == [ErrorCode.NONE] * 6 + [
        ErrorCode.GROUP_ID_NOT_FOUND
    ]
    assert left.groups == []


def test_group_asked_for_many_times_is_answered_once(client: Client) -> None:
    names = ["b", "a", "c", "a"] * 1_000

    described = client.ask(DescribeGroupsRequest(groups=names), DescribeGroupsResponse)
    deleted = client.ask(DeleteGroupsRequest(groups_names=names), DeleteGroupsResponse)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    offsets = client.ask(OffsetFetchRequest(groups=groups), OffsetFetchResponse, 9)

    assert [each.group_id for each in described.groups] == ["b", "a", "c"]
    assert [each.group_id for each in deleted.results] == ["b", "a", "c"]
    assert [each.group_id for each in offsets.groups] == ["b", "a", "c"]


def test_coordinator_is_found_and_its_topic_created_on_first_use(
    machine: InProcess, client: Client
) -> None:
    before = "__consumer_offsets" in machine.broker.image.topics

    answer = client.ask(
        FindCoordinatorRequest(coordinator_keys=[GROUP, ""]), FindCoordinatorResponse
    )

    found, nameless = answer.coordinators
    # As in Kafka: who has no name is refused where it joins, not where it asks.
    assert not before
    assert (found.node_id, found.host, found.port) == (1, "broker.example", 9092)
    assert (nameless.error_code, nameless.node_id) == (ErrorCode.NONE, 1)
    assert len(machine.broker.image.topics["__consumer_offsets"].partitions) == 2


@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (-1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_coordinators_of_other_kinds_are_not_served(
    client: Client, key_type: int, code: int
) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["id"])

    assert client.ask(request, FindCoordinatorResponse).coordinators[0].error_code == code


def test_coordinator_is_not_available_while_the_offsets_topic_cannot_be_made() -> None:
    machine = InProcess(settings={"offsets.topic.replication.factor": "3"})
    client = machine.connect()
    create_topic(client)

    found = client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), FindCoordinatorResponse)
    listed = client.ask(ListGroupsRequest(), ListGroupsResponse)
    joined = client.ask(join(GROUP), JoinGroupResponse)

    assert (
        found.coordinators[0].error_code == joined.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    assert (listed.error_code, listed.groups) == (ErrorCode.NONE, [])
    assert client.closed is None
    machine.check_invariants()


def test_deleted_offsets_topic_takes_the_groups_with_it(machine: InProcess, client: Client) -> None:
    create_topic(client)
    commit_offset(client, GROUP, 17)
    waiting = machine.connect()
    first = first_join(client)
    waiting.send(join(GROUP), 3)

    delete_topic(client, "__consumer_offsets")

    assert waiting.take(JoinGroupResponse).error_code == ErrorCode.NOT_COORDINATOR
    assert committed_offset(client, GROUP) is None
    beat = HeartbeatRequest(
        group_id=GROUP, generation_id=first.generation_id, member_id=first.member_id
    )
    assert client.ask(beat, HeartbeatResponse).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_groups_may_hold_is_told_once_a_minute_and_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limit = 4 << 20
    delay = {"group.initial.rebalance.delay.ms": "60000"}
    machine = InProcess(settings={"ledgerstone.groups.max.bytes": str(limit), **delay})
    clients = [machine.connect(f"10.0.0.{number}") for number in range(40)]
    for number, client in enumerate(clients):
        client.send(join(f"evil\n{number}", topics=bytes(1 << 20)), 3)
    memory = machine.broker.groups.memory
    waiting = [each for each in clients if each.is_waiting]
    assert 0 < len(waiting) < 5
    assert (len(waiting) << 20) < memory.members_bytes <= limit
    refused = clients[-1].take(JoinGroupResponse)
    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    lines = [each for each in caplog.messages if each.startswith("group refused")]
    assert len(lines) == 1
    assert f"peer=10.0.0.{len(waiting)} " in lines[0]
    assert "ledgerstone.groups.max.bytes=4194304" in lines[0]
    text = exposition(sample for part in sample_slices(machine.broker) for sample in part)
    assert f'ledgerstone_group_memory_bytes{{what="members"}} {memory.members_bytes}' in text
    machine.broker.check_invariants()


def test_filter_of_very_many_names_is_short_where_groups_are_held_against_it(
    machine: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(client)
    assert commit_offset(client, "readers", 1) == 0
    names = [f"strange-{number}" for number in range(1000)]
    held_against: list[int] = []
    is_wanted = describing.is_wanted

    def counted(group: GroupState, request: ListGroupsRequest) -> bool:
        held_against.append(len(request.states_filter) + len(request.types_filter))
        return is_wanted(group, request)

    monkeypatch.setattr(shard, "is_wanted", counted)

    def listed(states: list[str], types: list[str]) -> list[str]:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        return [each.group_id for each in client.ask(request, ListGroupsResponse).groups]

    assert listed(names, []) == []
    assert listed([], names) == []
    assert listed([*names, "EMPTY"], [*names, "Classic"]) == ["readers"]
    assert max(held_against) <= 4
