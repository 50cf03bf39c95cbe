"""Members with a group instance id: they may restart without anybody noticing (KIP-345)."""

import pytest

from ledgerstone.coordinator.group_state import GroupPhase
from ledgerstone.coordinator.turn import GroupConfig
from ledgerstone.protocol.error_codes import ErrorCode
from tests.unit.coordinator.desk import REBALANCE_MS, SESSION_MS, Desk


def test_static_member_needs_no_id_first(desk: Desk) -> None:
    token = desk.join(group_instance_id="one")

    assert token not in desk.answers
    assert list(desk.group().roster.static_ids) == ["one"]


def test_restarted_follower_gets_its_assignment_back_without_a_rebalance(desk: Desk) -> None:
    leader, follower = desk.form_static("one", "two")

    answer = desk.joined(desk.join(group_instance_id="two"))

    assert answer.error_code == ErrorCode.NONE
    assert (answer.generation_id, answer.leader, answer.skip_assignment) == (1, leader, False)
    assert answer.member_id != follower
    assert desk.group().state is GroupPhase.STABLE
    assert desk.synced(desk.sync(answer.member_id, group_instance_id="two")).assignment == b"1"


def test_restarted_leader_is_told_to_keep_the_assignment(desk: Desk) -> None:
    _, follower = desk.form_static("one", "two")

    answer = desk.joined(desk.join(group_instance_id="one"))

    assert answer.skip_assignment
    assert answer.leader == answer.member_id
    assert {each.member_id for each in answer.members} == {answer.member_id, follower}
    assert desk.synced(desk.sync(answer.member_id, group_instance_id="one")).assignment == b"0"


def test_restarted_leader_that_cannot_skip_is_made_to_think_it_follows(desk: Desk) -> None:
    former, _ = desk.form_static("one", "two")

    answer = desk.joined(desk.join(group_instance_id="one", version=8))

    assert not answer.skip_assignment
    assert answer.leader == former != answer.member_id
    assert answer.members == []


def test_former_id_is_fenced_on_every_request(desk: Desk) -> None:
    former, _ = desk.form_static("one", "two")
    desk.join(group_instance_id="one")
    fenced = ErrorCode.FENCED_INSTANCE_ID

    assert desk.heartbeat(former, group_instance_id="one") == fenced
    assert desk.synced(desk.sync(former, group_instance_id="one")).error_code == fenced
    assert desk.joined(desk.join(former, group_instance_id="one")).error_code == fenced
    assert desk.leave((former, "one")).members[0].error_code == fenced
    commit = desk.commit(member_id=former, generation_id=1, group_instance_id="one")
    assert commit == fenced
    assert desk.heartbeat(former) == ErrorCode.UNKNOWN_MEMBER_ID


def test_former_id_stays_fenced_after_a_failover(desk: Desk) -> None:
    former, _ = desk.form_static("one", "two")
    answer = desk.joined(desk.join(group_instance_id="one"))

    desk.restart()

    assert desk.heartbeat(former, group_instance_id="one") == ErrorCode.FENCED_INSTANCE_ID
    assert desk.heartbeat(answer.member_id, group_instance_id="one") == ErrorCode.NONE


def test_instance_nobody_knows_is_an_unknown_member(desk: Desk) -> None:
    leader, _ = desk.form_static("one", "two")

    assert desk.heartbeat(leader, group_instance_id="ghost") == ErrorCode.UNKNOWN_MEMBER_ID


def test_twin_of_a_parked_member_takes_its_place_and_fences_it(desk: Desk) -> None:
    first = desk.join(group_instance_id="one")

    second = desk.join(group_instance_id="one")
    desk.await_answer(second)

    assert desk.joined(first).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert [each.group_instance_id for each in desk.joined(second).members] == ["one"]


def test_restart_during_the_sync_phase_starts_a_new_join_phase(desk: Desk) -> None:
    tokens = [desk.join(group_instance_id=name) for name in ("one", "two")]
    desk.await_answer(tokens[0])
    waiting = desk.sync(desk.joined(tokens[1]).member_id)

    desk.join(group_instance_id="two")

    assert desk.synced(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert desk.group().state is GroupPhase.PREPARING_REBALANCE


def test_restart_that_changes_the_chosen_protocol_starts_a_rebalance(desk: Desk) -> None:
    tokens = [
        desk.join(group_instance_id=name, protocols=("range", "sticky")) for name in ("one", "two")
    ]
    desk.await_answer(tokens[0])
    desk.sync(desk.joined(tokens[0]).member_id)

    desk.join(group_instance_id="two", protocols=("sticky",))

    assert desk.group().state is GroupPhase.PREPARING_REBALANCE


def test_restart_with_another_subscription_alone_does_not_rebalance(desk: Desk) -> None:
    desk.form_static("one", "two")

    answer = desk.joined(desk.join(group_instance_id="two", metadata=b"owns nothing now"))

    assert answer.generation_id == 1
    assert desk.group().state is GroupPhase.STABLE


def test_member_that_is_away_keeps_its_place_until_its_session_ends(desk: Desk) -> None:
    desk.form_static("one", "two")

    desk.pass_time(SESSION_MS - 1)
    assert len(desk.group().roster) == 2
    desk.pass_time(1)

    assert desk.group().state is GroupPhase.EMPTY


def test_absent_static_member_is_kept_through_a_rebalance(desk: Desk) -> None:
    tokens = [
        desk.join(group_instance_id=name, session_timeout_ms=REBALANCE_MS * 3)
        for name in ("one", "two")
    ]
    desk.await_answer(tokens[0])
    leader = desk.joined(tokens[0]).member_id
    desk.sync(leader, group_instance_id="one")
    desk.sync(desk.joined(tokens[1]).member_id, group_instance_id="two")

    token = desk.join(leader, group_instance_id="one", session_timeout_ms=REBALANCE_MS * 3)
    desk.await_answer(token)

    assert [each.group_instance_id for each in desk.joined(token).members] == ["one", "two"]


def test_member_that_is_there_leads_when_the_leader_is_away(desk: Desk) -> None:
    session_ms = REBALANCE_MS * 3
    tokens = [
        desk.join(group_instance_id=name, session_timeout_ms=session_ms) for name in ("one", "two")
    ]
    desk.await_answer(tokens[0])
    leader, follower = (desk.joined(token).member_id for token in tokens)
    desk.sync(leader, group_instance_id="one")
    desk.sync(follower, group_instance_id="two")

    token = desk.join(
        follower, group_instance_id="two", metadata=b"changed", session_timeout_ms=session_ms
    )
    desk.await_answer(token)

    assert desk.joined(token).leader == follower
    assert [each.member_id for each in desk.joined(token).members] == [leader, follower]


def test_rebalance_with_everybody_away_goes_on_until_the_sessions_end(desk: Desk) -> None:
    leader, _ = desk.form_static("one", "two")
    token = desk.join(version=3)
    desk.pass_time(SESSION_MS)

    assert desk.joined(token).generation_id == 2
    assert desk.heartbeat(leader, group_instance_id="one") == ErrorCode.UNKNOWN_MEMBER_ID


def test_administrator_removes_a_static_member_by_its_instance(desk: Desk) -> None:
    _, follower = desk.form_static("one", "two")

    response = desk.leave(("", "one"), ("", "ghost"))

    codes = [member.error_code for member in response.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(desk.group().roster.members) == [follower]


def test_returning_static_member_needs_no_room_in_a_full_group() -> None:
    desk = Desk(GroupConfig(group_max_size=1))
    desk.form_static("one")

    assert desk.joined(desk.join(group_instance_id="one")).error_code == ErrorCode.NONE
    refused = desk.joined(desk.join(group_instance_id="two"))
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("version", [4, 9])
def test_twin_of_a_new_member_has_the_new_members_patience(desk: Desk, version: int) -> None:
    desk.form(1, session_timeout_ms=600_000, rebalance_timeout_ms=600_000)
    desk.join(group_instance_id="one", version=version)
    token = desk.join(group_instance_id="one", version=version)

    desk.pass_time(SESSION_MS * 2)

    assert token not in desk.answers
