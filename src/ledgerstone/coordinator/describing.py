"""DescribeGroups and ListGroups: what a group looks like from outside. Pure."""

from ledgerstone.coordinator.group_state import GroupPhase, GroupState
from ledgerstone.protocol.messages.describe_groups import DescribeGroupsGroup, DescribeGroupsMember
from ledgerstone.protocol.messages.list_groups import ListGroupsGroup, ListGroupsRequest


def described(group: GroupState) -> DescribeGroupsGroup:
    # What members say and own is only settled in Stable; before, it would mix two generations.
    is_stable = group.state is GroupPhase.STABLE
    return DescribeGroupsGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            DescribeGroupsMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=(member.metadata(group.protocol_name) or b"") if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.roster
        ],
    )


def listed(group: GroupState) -> ListGroupsGroup:
    return ListGroupsGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=group.group_type,
    )


def is_wanted(group: GroupState, request: ListGroupsRequest) -> bool:
    """An empty filter wants everything; the case of a filter does not matter."""
    states = [state.lower() for state in request.states_filter]
    types = [group_type.lower() for group_type in request.types_filter]
    return (not states or group.state.value.lower() in states) and (
        not types or group.group_type in types
    )
