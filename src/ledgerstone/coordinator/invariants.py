"""What must hold between any two calls of the group machine. Pure; called by tests on teardown."""

from ledgerstone.coordinator.classic_group import ClassicGroup
from ledgerstone.coordinator.group_state import GroupPhase
from ledgerstone.coordinator.group_table import GroupTable
from ledgerstone.coordinator.members import Member
from ledgerstone.coordinator.timers import Timer, TimerKind, Timers
from ledgerstone.coordinator.turn import Token

_IN_GENERATION = (GroupPhase.COMPLETING_REBALANCE, GroupPhase.STABLE)


def check_table(table: GroupTable) -> None:
    table.offsets.check_invariants()
    table.pending.check_invariants()
    for group_id, group in table.groups.items():
        assert group.group_id == group_id
        check_group(group)
        base_bytes = group.base_bytes if group.is_counted else 0
        assert group.roster.held_bytes == group.roster.counted_sum() + base_bytes, group_id
        assert group.is_counted or not group.roster, group_id
    tokens = parked_tokens(table)
    assert len({id(token) for token in tokens}) == len(tokens), "a token is parked twice"


def parked_tokens(table: GroupTable) -> list[Token]:
    return [
        parked.token
        for group in table.groups.values()
        for member in group.roster
        for parked in (member.parked_join, member.parked_sync)
        if parked is not None
    ]


def check_group(group: ClassicGroup) -> None:
    group.roster.check_invariants()
    timers, state, roster = group.timers, group.state, group.roster
    assert bool(roster) or state not in _IN_GENERATION, f"{state} without members"
    assert not roster or state not in (GroupPhase.EMPTY, GroupPhase.DEAD), f"{state} with members"
    assert (group.protocol_name is not None) or state not in _IN_GENERATION
    # Every parked token has a deadline: joins the group's, syncs that of the assignment.
    is_joining = state is GroupPhase.PREPARING_REBALANCE
    assert (Timer(TimerKind.JOIN, group.group_id) in timers) == is_joining
    assert (Timer(TimerKind.SYNC, group.group_id) in timers) == bool(roster.unsynced_ids)
    assert not roster.unsynced_ids or state in _IN_GENERATION
    assert group.initial_join is None or is_joining
    if state is GroupPhase.COMPLETING_REBALANCE:
        assert roster.leader_id in roster.unsynced_ids, "the leader synced and nothing came of it"
    for member in roster:
        _check_member(group, member)
    for member_id in roster.pending_ids:
        assert _session(group, member_id) in timers, f"{member_id} is pending for ever"
    _check_sessions(group, timers)


def _check_member(group: ClassicGroup, member: Member) -> None:
    assert member.parked_join is None or group.state is GroupPhase.PREPARING_REBALANCE
    assert member.parked_sync is None or group.state is GroupPhase.COMPLETING_REBALANCE
    has_session = _session(group, member.member_id) in group.timers
    assert has_session or (member.is_parked and not member.is_new), f"{member} lives for ever"
    assert group.state not in _IN_GENERATION or group.roster.common_protocols(
        [group.protocol_name or ""]
    )


def _check_sessions(group: ClassicGroup, timers: Timers) -> None:
    for timer in timers:
        if timer.kind is TimerKind.SESSION and timer.group_id == group.group_id:
            known = timer.member_id in group.roster.members
            assert known or timer.member_id in group.roster.pending_ids, f"{timer} has no member"


def _session(group: ClassicGroup, member_id: str) -> Timer:
    return Timer(TimerKind.SESSION, group.group_id, member_id)
