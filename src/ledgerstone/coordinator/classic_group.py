"""One classic group: its state, its rebalances and their time limits. Pure.

Members share out the work among themselves; the group only makes them meet. A rebalance has two
phases: all members join (PreparingRebalance), then the leader's assignment reaches every one of
them (CompletingRebalance). `joining` has the many ways into the first phase, `group_state` the
table of transitions. Requests by state and timings are in README.md.
"""

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from ledgerstone.coordinator.answers import join_granted, join_refused, sync_granted, sync_refused
from ledgerstone.coordinator.group_records import group_record, group_tombstone
from ledgerstone.coordinator.group_state import GroupPhase, GroupState
from ledgerstone.coordinator.members import Member, ParkedRequest
from ledgerstone.coordinator.memory import GroupMemory
from ledgerstone.coordinator.timers import Timer, TimerKind, Timers
from ledgerstone.coordinator.turn import GroupConfig, RequestContext, Turn
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import (
    CoordinatorNotAvailable,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvariantViolation,
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
)
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.leave_group import LeaveGroupRequestMember
from ledgerstone.protocol.messages.sync_group import SyncGroupRequest

# A parked JoinGroup of a client that has gone cannot be told from one that waits. New members are
# therefore forgotten after this time even if the rebalance takes longer.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000


@dataclass(slots=True)
class InitialJoin:
    """The join phase of a group that was empty: it waits for members nobody has heard of yet."""

    delay_ms: int
    remaining_ms: int
    has_new_member: bool = False


class ClassicGroup(GroupState):
    """Requests come in as calls, answers leave through the turn, deadlines come as `on_timer`.

    A KafkaError raised by a request is its answer. Every other request is answered through the
    turn, now or in a later one.
    """

    def __init__(
        self, group_id: str, config: GroupConfig, timers: Timers, memory: GroupMemory
    ) -> None:
        super().__init__(group_id, memory)
        self.config = config
        self.timers = timers
        self.initial_join: InitialJoin | None = None

    # -- requests -----------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest, context: RequestContext, turn: Turn) -> None:
        self.check_alive()
        member = self.roster.known(request.member_id, request.group_instance_id)
        self._check_generation(request.generation_id)
        self._check_protocol(request)
        self._check_joined()
        brings_assignment = (
            self.state is GroupPhase.COMPLETING_REBALANCE
            and member.member_id == self.roster.leader_id
        )
        given = {each.member_id: each.assignment for each in request.assignments}
        if brings_assignment:
            self._check_memory(given)
        self._mark_synced(member)
        # A second SyncGroup of one member means that nobody waits for the first any more.
        self.refuse_sync(member, RebalanceInProgress, turn)
        member.parked_sync = ParkedRequest(context.token, context.api_version)
        if self.state is GroupPhase.STABLE:
            self._grant_sync(member, turn)
        elif brings_assignment:
            self._assign(given, turn)

    def heartbeat(
        self, member_id: str, group_instance_id: str | None, generation_id: int, turn: Turn
    ) -> None:
        self.check_alive()
        member = self.roster.known(member_id, group_instance_id)
        self._check_generation(generation_id)
        self.touch(member, turn)
        self._check_joined()

    def leave(self, leavers: Sequence[LeaveGroupRequestMember], turn: Turn) -> list[int]:
        """One error code for each leaver; those that could leave cause one rebalance together."""
        self.check_alive()
        count = len(self.roster)
        error_codes = [self._leave_one(leaver, turn) for leaver in leavers]
        if len(self.roster) < count:
            self.rebalance_or_complete(turn)
        else:
            self.maybe_complete_join(turn)
        return error_codes

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation_id: int, turn: Turn
    ) -> None:
        """Whether an offset commit may be accepted; a member's commit keeps its session alive."""
        self.check_alive()
        if generation_id < 0 and self.state is GroupPhase.EMPTY:
            return
        if generation_id < 0 and not member_id and group_instance_id is None:
            raise UnknownMemberId(f"{self.group_id!r} has members, the commit names none")
        member = self.roster.known(member_id, group_instance_id)
        self._check_generation(generation_id)
        if self.state is GroupPhase.COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"{self.group_id!r} waits for its assignment")
        self.touch(member, turn)

    def check_txn_commit(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> None:
        """As `check_commit`, for offsets in a transaction (KIP-447). Old clients say nothing about
        themselves; a rebalance under way is no reason to refuse, an older generation is. The
        session goes on from the last heartbeat."""
        self.check_alive()
        is_silent = generation_id < 0 and not member_id and group_instance_id is None
        if is_silent or (generation_id < 0 and self.state is GroupPhase.EMPTY):
            return
        self.roster.known(member_id, group_instance_id)
        self._check_generation(generation_id)

    def check_alive(self) -> None:
        if self.state is GroupPhase.DEAD:
            raise CoordinatorNotAvailable(f"{self.group_id!r} is being deleted")

    def _check_generation(self, generation_id: int) -> None:
        if generation_id != self.generation_id:
            raise IllegalGeneration(f"generation {generation_id} is not {self.generation_id}")

    def _check_protocol(self, request: SyncGroupRequest) -> None:
        for given, current in (
            (request.protocol_type, self.protocol_type),
            (request.protocol_name, self.protocol_name),
        ):
            if given is not None and given != current:
                raise InconsistentGroupProtocol(f"{given!r} is not the group's {current!r}")

    def _check_joined(self) -> None:
        if self.state is GroupPhase.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"{self.group_id!r} waits for its members to join")

    def _leave_one(self, leaver: LeaveGroupRequestMember, turn: Turn) -> int:
        member_id, group_instance_id = leaver.member_id, leaver.group_instance_id
        if not member_id and group_instance_id is not None:
            # An administrator removes a static member without knowing its member id.
            member_id = self.roster.static_ids.get(group_instance_id, "")
        if member_id in self.roster.pending_ids:
            self.forget_pending(member_id)
            return ErrorCode.NONE
        try:
            self.remove(self.roster.known(member_id, group_instance_id), turn)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    # -- what the shard tells a group ---------------------------------------------------------

    def on_timer(self, timer: Timer, turn: Turn) -> None:
        match timer.kind:
            case TimerKind.JOIN:
                self._join_time_is_up(turn)
            case TimerKind.SYNC:
                self._expel_unsynced(turn)
            case TimerKind.SESSION:
                self._expire_session(timer.member_id, turn)
            case TimerKind.OFFSET_EXPIRY:
                raise InvariantViolation(f"{timer} does not belong to a group")
            case _:
                assert_never(timer.kind)

    def on_loaded(self, turn: Turn) -> None:
        """The log has been read to its end: from now on silence counts."""
        for member in self.roster:
            self.touch(member, turn)
        if len(self.roster) > self.config.group_max_size:
            self._prepare_rebalance(turn)

    def bury(self, turn: Turn) -> None:
        """Nobody may join between the decision to delete the group and the end of the deletion."""
        for member_id in list(self.roster.pending_ids):
            self.forget_pending(member_id)
        self.move_to(GroupPhase.DEAD)
        turn.write(group_tombstone(self.group_id))

    def on_append_failed(self, turn: Turn) -> None:
        """A record of this group did not reach the log: what it said may not be relied on."""
        if self.state is GroupPhase.DEAD:
            self.move_to(GroupPhase.EMPTY)
        elif self.state is GroupPhase.STABLE:
            self._prepare_rebalance(turn)

    # -- the join phase -----------------------------------------------------------------------

    def rebalance_or_complete(self, turn: Turn) -> None:
        """The members changed: somebody joined or left, or has something new to say."""
        if self.state is GroupPhase.PREPARING_REBALANCE:
            self.maybe_complete_join(turn)
        else:
            self._prepare_rebalance(turn)

    def maybe_complete_join(self, turn: Turn) -> None:
        # The initial delay is kept to its end: it is there for members that are still unknown.
        is_waiting = self.state is GroupPhase.PREPARING_REBALANCE and self.initial_join is None
        if is_waiting and self.roster.all_joined:
            self._complete_join(turn)

    def _prepare_rebalance(self, turn: Turn) -> None:
        if self.state is GroupPhase.COMPLETING_REBALANCE:
            for member in self.roster:
                if member.is_parked:
                    # Its session may have run out while it waited for us.
                    self.touch(member, turn)
                self.refuse_sync(member, RebalanceInProgress, turn)
        self._stop_sync_phase()
        was_empty = self.state is GroupPhase.EMPTY
        self._enter(GroupPhase.PREPARING_REBALANCE, turn)
        if was_empty:
            delay_ms = self.config.group_initial_rebalance_delay_ms
            remaining_ms = max(self.roster.rebalance_timeout_ms - delay_ms, 0)
            self.initial_join = InitialJoin(delay_ms, remaining_ms)
            self._start(TimerKind.JOIN, delay_ms, turn)
        elif self.roster.all_joined:
            self._complete_join(turn)
        else:
            self._start(TimerKind.JOIN, self.roster.rebalance_timeout_ms, turn)

    def _join_time_is_up(self, turn: Turn) -> None:
        initial = self.initial_join
        if initial is None or not initial.has_new_member or initial.remaining_ms == 0:
            self._complete_join(turn)
            return
        initial.has_new_member = False
        passed_ms = initial.delay_ms
        initial.delay_ms = min(self.config.group_initial_rebalance_delay_ms, initial.remaining_ms)
        initial.remaining_ms = max(initial.remaining_ms - passed_ms, 0)
        self._start(TimerKind.JOIN, initial.delay_ms, turn)

    def _complete_join(self, turn: Turn) -> None:
        self.timers.cancel(Timer(TimerKind.JOIN, self.group_id))
        self.initial_join = None
        for member in list(self.roster):
            # A static member is expected back; it goes when its session, or the sync, times out.
            if member.parked_join is None and member.group_instance_id is None:
                self.remove(member, turn)
        if self.roster and not self.roster.elect_joined_leader():
            # Only static members that are away. A wait of nothing would never let time pass.
            self._start(TimerKind.JOIN, max(self.roster.rebalance_timeout_ms, 1), turn)
            return
        self.generation_id += 1
        if self.roster:
            self._start_sync_phase(turn)
        else:
            self.protocol_name = None
            self._enter(GroupPhase.EMPTY, turn)
            self.write_metadata(turn)

    # -- the sync phase -----------------------------------------------------------------------

    def _start_sync_phase(self, turn: Turn) -> None:
        self.protocol_name = self.roster.choose_protocol()
        self._enter(GroupPhase.COMPLETING_REBALANCE, turn)
        for member in self.roster:
            parked, member.parked_join = member.parked_join, None
            if parked is not None:
                turn.answer(parked.token, join_granted(self, member))
            member.is_new = False
            self.touch(member, turn)
            self.roster.unsynced_ids[member.member_id] = None
        self._start(TimerKind.SYNC, self.roster.rebalance_timeout_ms, turn)

    def _check_memory(self, given: Mapping[str, bytes]) -> None:
        roster = self.roster
        more = sum(
            len(given.get(member.member_id, b"")) - len(member.assignment) for member in roster
        )
        roster.memory.check_group(self.group_id, roster.held_bytes, more)
        # A consumer that waits for its assignment takes only this code for `later`.
        roster.memory.check_members(more, CoordinatorNotAvailable)

    def _assign(self, given: Mapping[str, bytes], turn: Turn) -> None:
        for member in self.roster:
            self.roster.assign(member, given.get(member.member_id, b""))
        self._enter(GroupPhase.STABLE, turn)
        self.write_metadata(turn)
        for member in self.roster:
            self._grant_sync(member, turn)

    def _grant_sync(self, member: Member, turn: Turn) -> None:
        parked, member.parked_sync = member.parked_sync, None
        if parked is not None:
            turn.answer(parked.token, sync_granted(self, member))
            self.touch(member, turn)

    def _mark_synced(self, member: Member) -> None:
        self.roster.unsynced_ids.pop(member.member_id, None)
        if not self.roster.unsynced_ids:
            self._stop_sync_phase()

    def _stop_sync_phase(self) -> None:
        self.roster.unsynced_ids.clear()
        self.timers.cancel(Timer(TimerKind.SYNC, self.group_id))

    def _expel_unsynced(self, turn: Turn) -> None:
        for member_id in list(self.roster.unsynced_ids):
            self.remove(self.roster.members[member_id], turn)
        self._prepare_rebalance(turn)

    # -- members and their sessions -----------------------------------------------------------

    def touch(self, member: Member, turn: Turn) -> None:
        timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        self.start_session(member.member_id, timeout_ms, turn)

    def start_session(self, member_id: str, timeout_ms: int, turn: Turn) -> None:
        self._start(TimerKind.SESSION, timeout_ms, turn, member_id)

    def end_session(self, member_id: str) -> None:
        self.timers.cancel(Timer(TimerKind.SESSION, self.group_id, member_id))

    def _expire_session(self, member_id: str, turn: Turn) -> None:
        if member_id in self.roster.pending_ids:
            self.forget_pending(member_id)
            self.maybe_complete_join(turn)
            return
        member = self.roster.members[member_id]
        # Who is parked waits for us: the rebalance has its own deadlines and starts a new session.
        if member.is_new or not member.is_parked:
            self.remove(member, turn)
            self.rebalance_or_complete(turn)

    def forget_pending(self, member_id: str) -> None:
        self.roster.forget_pending(member_id)
        self.end_session(member_id)

    def remove(self, member: Member, turn: Turn) -> None:
        self.refuse_join(member, UnknownMemberId, turn)
        self.refuse_sync(member, UnknownMemberId, turn)
        self.end_session(member.member_id)
        self.roster.remove(member)

    def refuse_join(self, member: Member, error: type[KafkaError], turn: Turn) -> None:
        parked, member.parked_join = member.parked_join, None
        if parked is not None:
            refusal = join_refused(error.code, api_version=parked.api_version)
            turn.answer(parked.token, refusal)

    def refuse_sync(self, member: Member, error: type[KafkaError], turn: Turn) -> None:
        parked, member.parked_sync = member.parked_sync, None
        if parked is not None:
            turn.answer(parked.token, sync_refused(error.code))

    # -- state, time, records -----------------------------------------------------------------

    def _enter(self, state: GroupPhase, turn: Turn) -> None:
        self.move_to(state)
        self.state_since_ms = turn.now.wall_ms

    def _start(self, kind: TimerKind, after_ms: int, turn: Turn, member_id: str = "") -> None:
        timer = Timer(kind, self.group_id, member_id)
        self.timers.schedule(timer, turn.now.monotonic_ms + after_ms)

    def write_metadata(self, turn: Turn) -> None:
        turn.write(group_record(self.group_id, self.metadata_value()))
