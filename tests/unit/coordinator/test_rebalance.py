"""SyncGroup, Heartbeat and LeaveGroup in every state, and what the passing of time does."""

from typing import Any

import pytest

from ledgerstone.coordinator.group_state import TRANSITIONS, GroupPhase
from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tests.unit.coordinator.desk import REBALANCE_MS, SESSION_MS, Desk


def _completing(desk: Desk, count: int = 2) -> list[str]:
    """A group whose members have joined and not synced yet, the leader first."""
    member_ids = [desk.member_id() for _ in range(count)]
    tokens = [desk.join(member_id) for member_id in member_ids]
    desk.await_answer(tokens[0])
    return member_ids


# -- SyncGroup ------------------------------------------------------------------------------------


def test_follower_waits_until_the_leader_brings_the_assignment(desk: Desk) -> None:
    leader, follower = _completing(desk)
    waiting = desk.sync(follower)
    assert waiting not in desk.answers

    leading = desk.sync(leader, 1, {leader: b"a", follower: b"b", "stranger": b"c"})

    assert desk.synced(waiting).assignment == b"b"
    assert desk.synced(leading).assignment == b"a"
    assert desk.synced(leading).protocol_type == "consumer"
    assert desk.synced(leading).protocol_name == "range"


def test_member_the_leader_forgot_gets_an_empty_assignment(desk: Desk) -> None:
    leader, follower = _completing(desk)
    desk.sync(leader, 1, {leader: b"everything"})

    late = desk.synced(desk.sync(follower))

    assert (late.error_code, late.assignment) == (ErrorCode.NONE, b"")


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "nowhere"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_sync_that_does_not_fit_is_refused(
    desk: Desk, fields: dict[str, Any], error_code: ErrorCode
) -> None:
    leader, _ = _completing(desk)

    assert desk.synced(desk.sync(**{"member_id": leader} | fields)).error_code == error_code


def test_sync_during_the_join_phase_says_that_a_rebalance_is_going_on(desk: Desk) -> None:
    leader, follower = desk.form(2)
    desk.join(leader)

    assert desk.synced(desk.sync(follower)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_second_sync_of_a_parked_member_releases_the_first(desk: Desk) -> None:
    _, follower = _completing(desk)
    first, second = desk.sync(follower), desk.sync(follower)

    assert desk.synced(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in desk.answers


def test_new_member_sends_waiting_followers_back_to_join(desk: Desk) -> None:
    _, follower = _completing(desk)
    waiting = desk.sync(follower)

    desk.join(version=3)

    assert desk.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.group().state is GroupPhase.PREPARING_REBALANCE


@pytest.mark.parametrize("leader_syncs", [True, False])
def test_members_that_do_not_sync_in_time_are_expelled(desk: Desk, leader_syncs: bool) -> None:
    leader, follower = _completing(desk)
    present, absent = (leader, follower) if leader_syncs else (follower, leader)
    waiting = desk.sync(present)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        desk.pass_time(5_000)
        assert desk.heartbeat(absent) == ErrorCode.NONE
        assert desk.heartbeat(present) == ErrorCode.NONE
    assert set(desk.group().roster.members) == {leader, follower}

    desk.pass_time(5_000)

    assert list(desk.group().roster.members) == [present]
    assert desk.group().state is GroupPhase.PREPARING_REBALANCE
    expected = ErrorCode.NONE if leader_syncs else ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.synced(waiting).error_code == expected


def test_session_of_a_follower_starts_anew_when_it_gets_its_assignment(desk: Desk) -> None:
    leader, follower = _completing(desk)
    desk.sync(follower)
    desk.pass_time(SESSION_MS - 1)
    desk.sync(leader)

    desk.pass_time(SESSION_MS - 1)

    assert desk.heartbeat(follower) == ErrorCode.NONE


def test_session_of_a_follower_starts_anew_when_it_is_sent_back_to_join(desk: Desk) -> None:
    """While it was parked its session ran out: without a new one nothing would expel it."""
    leader, follower = _completing(desk)
    waiting = desk.sync(follower)
    for _ in range(3):
        desk.pass_time(SESSION_MS // 2)
        desk.heartbeat(leader)

    desk.join(version=3)

    assert desk.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    desk.shard.check_invariants()
    desk.pass_time(SESSION_MS)
    assert follower not in desk.group().roster.members


# -- Heartbeat ------------------------------------------------------------------------------------


def test_heartbeat_in_each_state(desk: Desk) -> None:
    assert desk.heartbeat("anyone", group_id="") == ErrorCode.INVALID_GROUP_ID
    assert desk.heartbeat("anyone") == ErrorCode.UNKNOWN_MEMBER_ID

    leader, _ = _completing(desk)
    assert desk.heartbeat(leader) == ErrorCode.NONE
    desk.sync(leader)
    assert desk.heartbeat(leader) == ErrorCode.NONE
    assert desk.heartbeat(leader, 0) == ErrorCode.ILLEGAL_GENERATION
    assert desk.heartbeat("stranger") == ErrorCode.UNKNOWN_MEMBER_ID

    desk.join(version=3)
    assert desk.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_keep_a_member_in_the_group(desk: Desk) -> None:
    (member,) = desk.form(1)

    for _ in range(5):
        desk.pass_time(SESSION_MS - 1)
        assert desk.heartbeat(member) == ErrorCode.NONE


def test_silent_member_is_removed_and_the_others_rebalance(desk: Desk) -> None:
    leader, follower = desk.form(2)
    desk.pass_time(SESSION_MS - 1)
    desk.heartbeat(follower)

    desk.pass_time(1)

    assert desk.heartbeat(leader) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = desk.joined(desk.join(follower))
    assert (answer.leader, answer.generation_id) == (follower, 2)


def test_heartbeat_during_the_join_phase_refreshes_the_session(desk: Desk) -> None:
    leader, follower = desk.form(2)
    token = desk.join(leader)

    for _ in range(3):
        desk.pass_time(SESSION_MS - 1)
        assert desk.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS

    assert token not in desk.answers


def test_parked_member_is_not_expected_to_send_heartbeats(desk: Desk) -> None:
    leader, follower = desk.form(2, session_timeout_ms=30_000)
    token = desk.join(leader, session_timeout_ms=SESSION_MS)

    desk.pass_time(29_999)
    desk.heartbeat(follower)
    desk.pass_time(29_999)

    assert token not in desk.answers
    assert leader in desk.group().roster.members


# -- LeaveGroup -----------------------------------------------------------------------------------


def test_last_leaver_leaves_an_empty_group_of_the_next_generation(desk: Desk) -> None:
    (member,) = desk.form(1)

    response = desk.leave((member, None))

    assert (response.error_code, response.members[0].error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert desk.group().state is GroupPhase.EMPTY
    assert desk.group().generation_id == 2


def test_batch_of_leavers_is_answered_one_by_one_and_causes_one_rebalance(desk: Desk) -> None:
    _, second, third = desk.form(3)

    response = desk.leave((second, None), ("stranger", None), (third, None))

    codes = [member.error_code for member in response.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert desk.group().state is GroupPhase.PREPARING_REBALANCE
    assert desk.group().generation_id == 1


@pytest.mark.parametrize("version", [0, 2])
def test_old_leave_answers_with_one_error(desk: Desk, version: int) -> None:
    (member,) = desk.form(1)

    assert desk.leave(("stranger", None), version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.leave((member, None), version=version).error_code == ErrorCode.NONE
    assert desk.group().state is GroupPhase.EMPTY


def test_leave_of_an_unknown_group_blames_each_member(desk: Desk) -> None:
    response = desk.leave(("stranger", None))
    assert response.error_code == ErrorCode.NONE
    assert response.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID

    token = desk.ask("leave_group", LeaveGroupRequest(), 5)
    assert desk.answer(token, LeaveGroupResponse).error_code == ErrorCode.INVALID_GROUP_ID


def test_leave_of_a_handed_out_id_does_not_disturb_a_stable_group(desk: Desk) -> None:
    desk.form(1)
    pending = desk.member_id()

    assert desk.leave((pending, None)).members[0].error_code == ErrorCode.NONE
    assert desk.group().state is GroupPhase.STABLE


def test_leader_that_leaves_while_followers_wait_sends_them_back_to_join(desk: Desk) -> None:
    leader, follower = _completing(desk)
    waiting = desk.sync(follower)

    desk.leave((leader, None))

    assert desk.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_parked_member_that_leaves_is_told_that_it_left(desk: Desk) -> None:
    leader, _ = desk.form(2)
    token = desk.join(leader)

    desk.leave((leader, None))

    assert desk.joined(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", GroupPhase)
@pytest.mark.parametrize("target", GroupPhase)
def test_group_moves_only_along_the_table(
    desk: Desk, source: GroupPhase, target: GroupPhase
) -> None:
    desk.commit()
    group = desk.group()
    group.state = source

    if target in TRANSITIONS[source]:
        group.move_to(target)
        assert group.state is target
    else:
        with pytest.raises(InvariantViolation, match=source.name):
            group.move_to(target)
    group.state = GroupPhase.EMPTY
