"""DescribeGroups, ListGroups and DeleteGroups."""

import pytest

from ledgerstone.coordinator.group_state import GroupPhase
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.unit.coordinator.desk import GROUP, Desk


def _describe(desk: Desk, group_id: str = GROUP, version: int = 6) -> DescribeGroupsGroup:
    request = DescribeGroupsRequest(groups=[group_id])
    token = desk.ask("describe_groups", request, version)
    (group,) = desk.answer(token, DescribeGroupsResponse).groups
    return group


def _list(desk: Desk, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    token = desk.ask("list_groups", request, 5)
    return [group.group_id for group in desk.answer(token, ListGroupsResponse).groups]


def _delete(desk: Desk, *group_ids: str) -> list[int]:
    token = desk.ask("delete_groups", DeleteGroupsRequest(groups_names=list(group_ids)), 2)
    return [result.error_code for result in desk.answer(token, DeleteGroupsResponse).results]


def test_stable_group_shows_what_its_members_say_and_own(desk: Desk) -> None:
    leader, follower = desk.form(2, metadata=b"said")

    group = _describe(desk)

    assert (group.group_state, group.protocol_type) == ("Stable", "consumer")
    assert group.protocol_data == "range"
    assert [(each.member_id, each.member_assignment) for each in group.members] == [
        (leader, b"0"),
        (follower, b"1"),
    ]
    assert {(each.member_metadata, each.client_id, each.client_host) for each in group.members} == {
        (b"said", "client", "/10.0.0.1")
    }


def test_group_between_generations_shows_its_members_only(desk: Desk) -> None:
    leader, _ = desk.form(2, metadata=b"said")
    desk.join(leader)

    group = _describe(desk)

    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert len(group.members) == 2
    assert {(each.member_metadata, each.member_assignment) for each in group.members} == {
        (b"", b"")
    }


@pytest.mark.parametrize(
    ("version", "error_code", "message"),
    [(5, ErrorCode.NONE, None), (6, ErrorCode.GROUP_ID_NOT_FOUND, "Group nowhere not found.")],
)
def test_unknown_group_is_described_as_dead(
    desk: Desk, version: int, error_code: ErrorCode, message: str | None
) -> None:
    group = _describe(desk, "nowhere", version)

    assert (group.group_id, group.group_state) == ("nowhere", "Dead")
    assert (group.error_code, group.error_message) == (error_code, message)


def test_list_is_filtered_by_state_and_type_whatever_their_case(desk: Desk) -> None:
    desk.form(1)
    desk.commit(group="simple")

    assert _list(desk) == [GROUP, "simple"]
    assert _list(desk, ("stable",)) == [GROUP]
    assert _list(desk, ("Empty", "Dead")) == ["simple"]
    assert _list(desk, types=("Classic",)) == [GROUP, "simple"]
    assert _list(desk, types=("consumer",)) == []


def test_only_empty_groups_can_be_deleted(desk: Desk) -> None:
    (member,) = desk.form(1)
    desk.commit(member_id=member, generation_id=1)

    assert _delete(desk, GROUP, "nowhere") == [
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    desk.leave((member, None))
    assert _delete(desk, GROUP, GROUP) == [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]

    assert _list(desk) == []
    desk.restart()
    assert _list(desk) == []
    assert desk.committed() == -1


def test_deleted_group_may_begin_again(desk: Desk) -> None:
    desk.commit()
    _delete(desk, GROUP)

    desk.form(1)

    assert desk.group().state is GroupPhase.STABLE
    assert desk.committed() == -1


def test_nobody_joins_while_the_deletion_is_on_its_way(desk: Desk) -> None:
    desk.commit()
    pending = desk.member_id()
    outcome = desk.outcome_of("delete_groups", DeleteGroupsRequest(groups_names=[GROUP]), 2)

    refused = desk.joined(desk.join(pending))
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.commit() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert _describe(desk).group_state == "Dead"

    for record in outcome.records:
        desk.shard.replay(*record)
    assert not desk.shard.table.groups
