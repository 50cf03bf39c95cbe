"""Groups asked after a deadline, before the tick that is due: on a busy broker the tick comes last.

Here time passes without any tick, which is what a request sees that was served before it.
"""

from collections.abc import Callable

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.join_group import JoinGroupResponse
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ledgerstone.protocol.messages.sync_group import (
    SyncGroupAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import TOPIC, commit_offset, committed_offset, create_topic, join

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 30_000
# How late the tick of a broker under load was seen to come.
LATE_MS = 15


@pytest.fixture
def member(machine: InProcess) -> JoinGroupResponse:
    """The only member of a stable group, whose session has just begun."""
    client = machine.connect()
    create_topic(client)
    client.send(join(GROUP), 3)
    machine.advance(0)
    joined = client.take(JoinGroupResponse)
    assignment = SyncGroupAssignment(member_id=joined.member_id, assignment=b"part")
    sync = SyncGroupRequest(
        group_id=GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type=joined.protocol_type or "consumer",
        protocol_name=joined.protocol_name,
        assignments=[assignment],
    )
    assert client.ask(sync, SyncGroupResponse).error_code == ErrorCode.NONE
    return joined


def state_of(client: Client) -> str:
    described = client.ask(DescribeGroupsRequest(groups=[GROUP]), DescribeGroupsResponse)
    return described.groups[0].group_state


def is_described_as_empty(client: Client) -> bool:
    return state_of(client) == "Empty"


def is_listed_as_empty(client: Client) -> bool:
    listed = client.ask(ListGroupsRequest(states_filter=["Empty"]), ListGroupsResponse)
    return [each.group_id for each in listed.groups] == [GROUP]


def can_be_deleted(client: Client) -> bool:
    deleted = client.ask(DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse)
    return deleted.results[0].error_code == ErrorCode.NONE


def takes_offsets_from_outside(client: Client) -> bool:
    return commit_offset(client, GROUP, 3) == ErrorCode.NONE


def loses_offsets_from_outside(client: Client) -> bool:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)]
    request = OffsetDeleteRequest(group_id=GROUP, topics=topics)
    answer = client.ask(request, OffsetDeleteResponse)
    return answer.topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "sees_nobody",
    [
        is_described_as_empty,
        is_listed_as_empty,
        can_be_deleted,
        takes_offsets_from_outside,
        loses_offsets_from_outside,
    ],
)
def test_who_asks_after_a_session_ended_does_not_see_its_member(
    machine: InProcess, member: JoinGroupResponse, sees_nobody: Callable[[Client], bool]
) -> None:
    machine.clock.advance(ms=SESSION_MS + LATE_MS)

    assert sees_nobody(machine.connect())


def test_newcomer_finds_the_room_of_a_member_whose_session_ended() -> None:
    machine = InProcess(settings={"group.max.size": "1"})
    first, newcomer = machine.connect(), machine.connect()
    first.send(join(GROUP), 3)
    machine.advance(0)
    first.take(JoinGroupResponse)

    machine.clock.advance(ms=SESSION_MS + LATE_MS)
    newcomer.send(join(GROUP), 3)
    machine.advance(0)

    assert newcomer.take(JoinGroupResponse).error_code == ErrorCode.NONE
    machine.check_invariants()


def test_member_is_seen_until_its_session_ends(
    machine: InProcess, member: JoinGroupResponse
) -> None:
    client = machine.connect()

    machine.clock.advance(ms=SESSION_MS - 1)
    before = state_of(client)
    machine.clock.advance(ms=1)

    assert before == "Stable"
    assert state_of(client) == "Empty"


def test_heartbeat_that_waited_for_a_busy_broker_is_heard_before_the_session_is_judged(
    machine: InProcess, member: JoinGroupResponse
) -> None:
    """It may have come in time: how long it waited in the socket, nobody knows."""
    client = machine.connect()
    beat = HeartbeatRequest(
        group_id=GROUP, generation_id=member.generation_id, member_id=member.member_id
    )

    machine.clock.advance(ms=SESSION_MS + LATE_MS)
    answer = client.ask(beat, HeartbeatResponse)
    machine.tick()

    assert answer.error_code == ErrorCode.NONE
    assert state_of(client) == "Stable"


def test_who_asks_after_a_join_phase_ended_sees_the_next_one_and_frees_who_waits(
    machine: InProcess, member: JoinGroupResponse
) -> None:
    client, newcomer = machine.connect(), machine.connect()
    newcomer.send(join(GROUP), 3)
    beat = HeartbeatRequest(
        group_id=GROUP, generation_id=member.generation_id, member_id=member.member_id
    )
    for _ in range(REBALANCE_MS // SESSION_MS + 1):
        # It lives, and does not join again.
        assert client.ask(beat, HeartbeatResponse).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        before = state_of(client)
        machine.clock.advance(ms=SESSION_MS - 1)

    after = state_of(client)

    assert (before, after) == ("PreparingRebalance", "CompletingRebalance")
    assert len(newcomer.take(JoinGroupResponse).members) == 1


def test_who_fetches_offsets_after_their_expiry_was_due_gets_none() -> None:
    settings = {
        "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": "60000",
    }
    machine = InProcess(settings=settings)
    client = machine.connect()
    create_topic(client)
    commit_offset(client, GROUP, 17)

    machine.clock.advance(ms=60_000 + LATE_MS)

    assert committed_offset(client, GROUP) is None
    machine.check_invariants()
