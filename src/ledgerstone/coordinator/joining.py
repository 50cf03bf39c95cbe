"""JoinGroup: who is let in, under which id, and whether that starts a rebalance. Pure.

Five ways in: a new client, the same one with the id it was handed, a known member again, a new
static member, and a static member that comes back without its id. Rules are in README.md.
"""

from typing import Final, NamedTuple

from ledgerstone.clock import Dice
from ledgerstone.coordinator.answers import join_granted, join_refused
from ledgerstone.coordinator.classic_group import ClassicGroup
from ledgerstone.coordinator.group_state import GroupPhase
from ledgerstone.coordinator.members import (
    Member,
    ParkedRequest,
    joining_member,
    new_member_id,
    pending_bytes,
)
from ledgerstone.coordinator.turn import RequestContext, Turn
from ledgerstone.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    RebalanceInProgress,
)
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9


def join(
    group: ClassicGroup, request: JoinGroupRequest, context: RequestContext, turn: Turn, dice: Dice
) -> None:
    group.check_alive()
    _check_room(group, request, turn)
    _check_protocols(group, request)
    group_instance_id = request.group_instance_id
    fresh = joining_member(request, context, request.member_id)
    parked = ParkedRequest(context.token, context.api_version)
    if request.member_id:
        if request.member_id in group.roster.pending_ids and group_instance_id is None:
            _admit(group, fresh, request.protocol_type, parked, turn)
        else:
            _join_again(group, fresh, parked, turn)
        return
    fresh.member_id = new_member_id(group_instance_id or context.client_id, dice)
    if group_instance_id in group.roster.static_ids:
        _replace_static(group, fresh, parked, turn)
    elif group_instance_id is None and context.api_version >= MEMBER_ID_REQUIRED_SINCE:
        _hand_out_id(group, fresh, parked, turn)
    else:
        _admit(group, fresh, request.protocol_type, parked, turn)


def _check_room(group: ClassicGroup, request: JoinGroupRequest, turn: Turn) -> None:
    roster, limit = group.roster, group.config.group_max_size
    member = roster.members.get(request.member_id)
    if group.state is GroupPhase.EMPTY or request.group_instance_id in roster.static_ids:
        return
    if group.state is GroupPhase.PREPARING_REBALANCE:
        # Places go to those who join first; a group above a lowered limit shrinks this way.
        has_place = member is not None and member.parked_join is not None
        has_room = has_place or roster.joined_count < limit
    else:
        has_room = member is not None or len(roster) < limit
    if has_room:
        return
    if request.member_id in roster.pending_ids:
        group.forget_pending(request.member_id)
    elif member is not None:
        group.remove(member, turn)
    group.maybe_complete_join(turn)
    raise GroupMaxSizeReached(f"{group.group_id!r} has {len(roster)} members of at most {limit}")


def _check_protocols(group: ClassicGroup, request: JoinGroupRequest) -> None:
    names = [protocol.name for protocol in request.protocols]
    if not request.protocol_type or not names:
        raise InconsistentGroupProtocol(f"type {request.protocol_type!r}, protocols {names}")
    if group.state is GroupPhase.EMPTY:
        return
    if request.protocol_type != group.protocol_type:
        raise InconsistentGroupProtocol(f"{request.protocol_type!r} is not {group.protocol_type!r}")
    if not group.roster.common_protocols(names):
        raise InconsistentGroupProtocol(f"none of {names} is common to all members")


class _Place(NamedTuple):
    """What who joins holds already, and through which connection."""

    size: int
    connection: int


def _check_memory(
    group: ClassicGroup, fresh: Member, wanted: int, former: _Place | None = None
) -> None:
    """Who has a place is refused only what is new."""
    memory, wanted = group.roster.memory, wanted + group.uncounted_bytes
    more = more_here = wanted
    if former is not None:
        more -= former.size
        if former.connection == fresh.connection:
            more_here -= former.size
    memory.check_group(group.group_id, group.roster.held_bytes, more)
    memory.check_connection(fresh.connection, more_here)
    memory.check_members(more)


def _hand_out_id(group: ClassicGroup, fresh: Member, parked: ParkedRequest, turn: Turn) -> None:
    # KIP-394: a client that never comes back with its id must not become a member.
    _check_memory(group, fresh, pending_bytes(fresh.member_id))
    group.roster.hand_out(fresh.member_id, fresh.connection)
    group.start_session(fresh.member_id, fresh.session_timeout_ms, turn)
    refusal = join_refused(
        ErrorCode.MEMBER_ID_REQUIRED, api_version=parked.api_version, member_id=fresh.member_id
    )
    turn.answer(parked.token, refusal)


def _admit(
    group: ClassicGroup, fresh: Member, protocol_type: str, parked: ParkedRequest, turn: Turn
) -> None:
    connection = group.roster.pending_ids.get(fresh.member_id)
    former = None
    if connection is not None:
        former = _Place(pending_bytes(fresh.member_id), connection)
    _check_memory(group, fresh, fresh.own_bytes, former)
    if group.initial_join is not None:
        group.initial_join.has_new_member = True
    group.protocol_type = protocol_type
    group.roster.add(fresh)
    fresh.parked_join = parked
    group.touch(fresh, turn)
    group.rebalance_or_complete(turn)


def _join_again(group: ClassicGroup, fresh: Member, parked: ParkedRequest, turn: Turn) -> None:
    member = group.roster.known(fresh.member_id, fresh.group_instance_id)
    # A leader that joins again in Stable asks for a rebalance: it may know of new partitions.
    # Anybody else with nothing new to say has only missed the answer.
    is_leader = member.member_id == group.roster.leader_id
    is_settled = group.state is GroupPhase.COMPLETING_REBALANCE or (
        group.state is GroupPhase.STABLE and not is_leader
    )
    if is_settled and member.protocols == fresh.protocols:
        turn.answer(parked.token, join_granted(group, member))
        return
    _check_memory(group, fresh, fresh.own_bytes, _Place(member.counted_bytes, member.connection))
    # A second JoinGroup of one member means that nobody waits for the first any more.
    group.refuse_join(member, RebalanceInProgress, turn)
    group.roster.adopt(member, fresh)
    member.parked_join = parked
    group.rebalance_or_complete(turn)


def _replace_static(group: ClassicGroup, fresh: Member, parked: ParkedRequest, turn: Turn) -> None:
    roster = group.roster
    assert fresh.group_instance_id is not None
    member = roster.members[roster.static_ids[fresh.group_instance_id]]
    _check_memory(group, fresh, fresh.own_bytes, _Place(member.counted_bytes, member.connection))
    former_leader_id = roster.leader_id
    group.refuse_join(member, FencedInstanceId, turn)
    group.refuse_sync(member, FencedInstanceId, turn)
    group.end_session(member.member_id)
    roster.rename(member, fresh.member_id)
    roster.adopt(member, fresh)
    group.touch(member, turn)
    if group.state is not GroupPhase.STABLE or roster.choose_protocol() != group.protocol_name:
        member.parked_join = parked
        group.rebalance_or_complete(turn)
        return
    # KIP-345: the restart of a static member moves no partitions. The log must learn the new id,
    # so that the old one stays fenced after a failover.
    group.write_metadata(turn)
    answer = join_granted(group, member)
    if parked.api_version >= SKIP_ASSIGNMENT_SINCE:
        # KIP-814: a leader must know that it leads, to watch for new partitions.
        answer.skip_assignment = member.member_id == roster.leader_id
    else:
        # An older client would compute a new assignment; the former id makes it a follower.
        answer.leader, answer.members = former_leader_id or "", []
    turn.answer(parked.token, answer)
