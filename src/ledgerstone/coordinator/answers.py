"""Answers to JoinGroup and SyncGroup, granted or refused. Pure."""

from typing import Final

from ledgerstone.coordinator.group_state import GroupState
from ledgerstone.coordinator.members import Member
from ledgerstone.protocol.messages.join_group import JoinGroupMember, JoinGroupResponse
from ledgerstone.protocol.messages.sync_group import SyncGroupResponse

# From this JoinGroup version on a response may say that no protocol was chosen.
_NULL_PROTOCOL_SINCE: Final = 7


def join_granted(group: GroupState, member: Member) -> JoinGroupResponse:
    """The current generation; the leader also learns what everybody said about themselves."""
    members = []
    if member.member_id == group.roster.leader_id:
        members = [
            JoinGroupMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                metadata=each.metadata(group.protocol_name) or b"",
            )
            for each in group.roster
        ]
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or "",
        leader=group.roster.leader_id or "",
        member_id=member.member_id,
        members=members,
    )


def join_refused(error_code: int, *, api_version: int, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error_code,
        member_id=member_id,
        protocol_name=None if api_version >= _NULL_PROTOCOL_SINCE else "",
    )


def sync_granted(group: GroupState, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def sync_refused(error_code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error_code)
