"""All groups of one partition of the offsets topic. Pure. The contract is in README.md.

Requests, time and replayed records come in; a `TurnOutcome` of records and answers comes out. What
the shell does with an outcome, and in which order, is said in `turn`.
"""

from collections.abc import Callable, Iterable, Iterator

from ledgerstone.clock import Dice
from ledgerstone.coordinator.answers import join_refused, sync_refused
from ledgerstone.coordinator.describing import described, is_wanted, listed
from ledgerstone.coordinator.failures import refused_after_append
from ledgerstone.coordinator.group_records import (
    GroupEntry,
    OffsetEntry,
    offset_tombstone,
    read_record,
)
from ledgerstone.coordinator.group_state import GroupPhase
from ledgerstone.coordinator.group_table import GroupTable, check_group_id
from ledgerstone.coordinator.invariants import check_table
from ledgerstone.coordinator.joining import join
from ledgerstone.coordinator.memory import GroupMemory
from ledgerstone.coordinator.offset_requests import (
    commit_offsets,
    commit_refused,
    delete_offsets,
    fetch_offsets,
)
from ledgerstone.coordinator.timers import Timer, TimerKind
from ledgerstone.coordinator.turn import (
    Answer,
    GroupConfig,
    GroupRecord,
    Now,
    RequestContext,
    Token,
    Turn,
    TurnOutcome,
    TxnMarker,
    TxnProducer,
)
from ledgerstone.coordinator.txn_offset_requests import (
    commit_txn_offsets,
    marker_written,
    txn_commit_refused,
)
from ledgerstone.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidSessionTimeout,
    KafkaError,
    NotCoordinator,
    UnknownMemberId,
)
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResult,
)
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.join_group import JoinGroupRequest
from ledgerstone.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.protocol.messages.offset_commit import OffsetCommitRequest
from ledgerstone.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ledgerstone.protocol.messages.offset_fetch import OffsetFetchRequest
from ledgerstone.protocol.messages.sync_group import SyncGroupRequest
from ledgerstone.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ledgerstone.types import NO_PRODUCER_ID, TopicPartition


class GroupShard:
    """Life cycle: `replay` every record of the partition, `loaded` once, then requests and ticks;
    `resign` when another broker takes over.

    A request that names several groups is answered for all of them as if they were here; whoever
    sends it takes care that they are.
    """

    def __init__(self, config: GroupConfig, dice: Dice, memory: GroupMemory | None = None) -> None:
        """`memory` is what all shards of a broker share."""
        self.table = GroupTable(config, GroupMemory(config) if memory is None else memory)
        # Records of types that are not ours, such as those of newer group protocols.
        self.skipped_record_count = 0
        self._config = config
        self._dice = dice

    # -- records ------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER_ID) -> None:
        """Takes in a committed record: while loading, and after each append of our own.
        `producer_id` is that of a transactional batch."""
        match read_record(key, value):
            case OffsetEntry() as entry:
                self.table.replay_offset(entry, producer_id)
            case GroupEntry() as entry:
                self.table.replay_group(entry)
            case None:
                self.skipped_record_count += 1

    def replay_marker(self, producer_id: int, *, commit: bool) -> list[TopicPartition]:
        """The end of a producer's transaction: what it committed counts, or is dropped. Returns the
        partitions whose offsets count from now on."""
        return self.table.replay_marker(producer_id, commit=commit)

    def loaded(self, now: Now) -> TurnOutcome:
        """Every record has been replayed: sessions and the expiry of offsets start to count."""
        turn = Turn(now)
        self.table.is_loaded = True
        for group in self.table.groups.values():
            group.on_loaded(turn)
        self._schedule_expiry(turn)
        return turn.outcome()

    def append_failed(self, outcome: TurnOutcome, error_code: int, now: Now) -> TurnOutcome:
        """The records of `outcome` are not in the log; what to answer, and do, instead."""
        turn = Turn(now)
        for token, response in outcome.answers:
            turn.answer(token, refused_after_append(response, error_code))
        entries = (read_record(key, value) for key, value in outcome.records)
        group_ids = {entry.group_id: None for entry in entries if isinstance(entry, GroupEntry)}
        for group_id in group_ids:
            if group_id in self.table.groups:
                self.table.groups[group_id].on_append_failed(turn)
        return turn.outcome()

    def resign(self, now: Now) -> TurnOutcome:
        """Answers every parked request; the shard is of no use afterwards."""
        turn = Turn(now)
        for group in self.table.groups.values():
            for member in group.roster:
                group.refuse_join(member, NotCoordinator, turn)
                group.refuse_sync(member, NotCoordinator, turn)
        self.table.release()
        self.table = GroupTable(self._config, self.table.memory)
        return turn.outcome()

    def check_invariants(self) -> None:
        check_table(self.table)

    # -- time ---------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        """Monotonic time at which `tick` has something to do."""
        return self.table.timers.next_deadline_ms

    def tick(self, now: Now, in_flight: Iterable[GroupRecord] = ()) -> TurnOutcome:
        """`in_flight` are records that are appended and not replayed yet."""
        turn = Turn(now)
        while (timer := self.table.timers.pop_due(now.monotonic_ms)) is not None:
            if timer.kind is TimerKind.OFFSET_EXPIRY:
                # What is committed again must not expire: the tombstone would come behind it.
                spared = {each.group_id: None for each in _offsets_in(in_flight)}
                self.table.expire_offsets(turn, spared)
                self._schedule_expiry(turn)
            else:
                self.table.groups[timer.group_id].on_timer(timer, turn)
        return turn.outcome()

    # -- membership ---------------------------------------------------------------------------

    def handle_join_group(
        self, request: JoinGroupRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        turn = Turn(now)
        try:
            check_group_id(request.group_id)
            self._check_session_timeout(request.session_timeout_ms)
            group = self.table.for_join(request.group_id, request.member_id)
            join(group, request, context, turn, self._dice)
            self.table.groups[request.group_id] = group
            group.count()
        except KafkaError as error:
            refusal = join_refused(
                error.code, api_version=context.api_version, member_id=request.member_id
            )
            turn.answer(context.token, refusal)
        return turn.outcome()

    def handle_sync_group(
        self, request: SyncGroupRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        turn = Turn(now)
        try:
            self.table.with_members(request.group_id).sync(request, context, turn)
        except KafkaError as error:
            turn.answer(context.token, sync_refused(error.code))
        return turn.outcome()

    def handle_heartbeat(
        self, request: HeartbeatRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        def beat(turn: Turn) -> ApiMessage:
            self.table.with_members(request.group_id).heartbeat(
                request.member_id, request.group_instance_id, request.generation_id, turn
            )
            return HeartbeatResponse()

        return _answered(context, now, beat, lambda code: HeartbeatResponse(error_code=code))

    def handle_leave_group(
        self, request: LeaveGroupRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        has_many = context.api_version >= 3
        leavers = request.members
        if not has_many:
            leavers = [LeaveGroupRequestMember(member_id=request.member_id)]

        def leave(turn: Turn) -> ApiMessage:
            check_group_id(request.group_id)
            group = self.table.groups.get(request.group_id)
            if group is None:
                error_codes = [UnknownMemberId.code] * len(leavers)
            else:
                error_codes = group.leave(leavers, turn)
            if not has_many:
                return LeaveGroupResponse(error_code=error_codes[0])
            return LeaveGroupResponse(
                members=[
                    LeaveGroupResponseMember(
                        member_id=leaver.member_id,
                        group_instance_id=leaver.group_instance_id,
                        error_code=error_code,
                    )
                    for leaver, error_code in zip(leavers, error_codes, strict=True)
                ]
            )

        return _answered(context, now, leave, lambda code: LeaveGroupResponse(error_code=code))

    # -- offsets ------------------------------------------------------------------------------

    def handle_offset_commit(
        self, request: OffsetCommitRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        def commit(turn: Turn) -> ApiMessage:
            generation_id = request.generation_id_or_member_epoch
            group = self.table.groups.get(request.group_id)
            if group is not None:
                group.check_commit(
                    request.member_id, request.group_instance_id, generation_id, turn
                )
            elif generation_id >= 0:
                # Clients before version 9 know only this way of being told to join again.
                error = GroupIdNotFound if context.api_version >= 9 else IllegalGeneration
                raise error(f"{request.group_id!r} has no generation {generation_id}")
            offsets = self.table.offsets
            return commit_offsets(request, self._config.offset_metadata_max_bytes, offsets, turn)

        return _answered(context, now, commit, lambda code: commit_refused(request, code))

    def handle_offset_fetch(
        self, request: OffsetFetchRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        def fetch() -> ApiMessage:
            offsets, pending = self.table.offsets, self.table.pending
            return fetch_offsets(request, context.api_version, offsets, pending)

        turn = Turn(now)
        if request.require_stable:
            # A transaction whose offsets are still in flight makes them unstable already: a member
            # that took over would otherwise read what its predecessor is about to replace.
            turn.answer_late(context.token, fetch)
        else:
            turn.answer(context.token, fetch())
        return turn.outcome()

    def handle_txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        """The producer was verified: the partition of this shard belongs to its transaction."""

        def commit(turn: Turn) -> ApiMessage:
            generation_id = request.generation_id
            group = self.table.groups.get(request.group_id)
            if group is not None:
                group.check_txn_commit(request.member_id, request.group_instance_id, generation_id)
            elif generation_id >= 0:
                raise IllegalGeneration(f"{request.group_id!r} has no generation {generation_id}")
            turn.producer = TxnProducer(request.producer_id, request.producer_epoch)
            pending, longest = self.table.pending, self._config.offset_metadata_max_bytes
            return commit_txn_offsets(request, longest, pending, turn)

        return _answered(context, now, commit, lambda code: txn_commit_refused(request, code))

    def complete_transaction(self, marker: TxnMarker, token: Token) -> TurnOutcome:
        """A coordinator ends a transaction; offsets change when the marker is replayed."""
        return TurnOutcome([], [Answer(token, marker_written(marker.producer_id))], marker=marker)

    def handle_offset_delete(
        self, request: OffsetDeleteRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        def delete(turn: Turn) -> ApiMessage:
            check_group_id(request.group_id)
            group = self.table.existing(request.group_id)
            return delete_offsets(group, request, self.table.offsets, self.table.pending, turn)

        return _answered(context, now, delete, lambda code: OffsetDeleteResponse(error_code=code))

    def topic_deleted(
        self, topic: str, now: Now, in_flight: Iterable[GroupRecord] = ()
    ) -> TurnOutcome:
        """`in_flight` are records that are appended and not replayed yet: they come before the
        tombstones."""
        turn = Turn(now)
        doomed: dict[tuple[str, TopicPartition], None] = {}
        for group_id, partitions in self.table.offsets.groups_with(topic):
            for partition in partitions:
                doomed[group_id, TopicPartition(topic, partition)] = None
        for group_id, topic_partition in self.table.pending.of_topic(topic):
            doomed[group_id, topic_partition] = None
        for group_id, topic_partition, _ in _offsets_in(in_flight):
            if topic_partition.topic == topic:
                doomed[group_id, topic_partition] = None
        for group_id, topic_partition in doomed:
            turn.write(offset_tombstone(group_id, topic_partition))
        return turn.outcome()

    # -- administration -----------------------------------------------------------------------

    def handle_delete_groups(
        self, request: DeleteGroupsRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        turn = Turn(now)
        response = DeleteGroupsResponse()
        for group_id in request.groups_names:
            result = DeleteGroupsResult(group_id=group_id)
            try:
                self.table.delete(group_id, turn)
            except KafkaError as error:
                result.error_code = error.code
            response.results.append(result)
        turn.answer(context.token, response)
        return turn.outcome()

    def handle_describe_groups(
        self, request: DescribeGroupsRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        turn = Turn(now)
        groups = [self._described(group_id, context.api_version) for group_id in request.groups]
        turn.answer(context.token, DescribeGroupsResponse(groups=groups))
        return turn.outcome()

    def handle_list_groups(
        self, request: ListGroupsRequest, context: RequestContext, now: Now
    ) -> TurnOutcome:
        turn = Turn(now)
        groups = [
            listed(group) for group in self.table.groups.values() if is_wanted(group, request)
        ]
        turn.answer(context.token, ListGroupsResponse(groups=groups))
        return turn.outcome()

    def _described(self, group_id: str, api_version: int) -> DescribeGroupsGroup:
        group = self.table.groups.get(group_id)
        if group is not None:
            return described(group)
        answer = DescribeGroupsGroup(group_id=group_id, group_state=GroupPhase.DEAD.value)
        if api_version >= 6:
            answer.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            answer.error_message = f"Group {group_id} not found."
        return answer

    def _check_session_timeout(self, session_timeout_ms: int) -> None:
        low = self._config.group_min_session_timeout_ms
        high = self._config.group_max_session_timeout_ms
        if not low <= session_timeout_ms <= high:
            raise InvalidSessionTimeout(f"{session_timeout_ms} ms is not in [{low}, {high}]")

    def _schedule_expiry(self, turn: Turn) -> None:
        interval_ms = max(self._config.offsets_retention_check_interval_ms, 1)
        self.table.timers.schedule(
            Timer(TimerKind.OFFSET_EXPIRY), turn.now.monotonic_ms + interval_ms
        )


def _offsets_in(records: Iterable[GroupRecord]) -> Iterator[OffsetEntry]:
    for key, value in records:
        entry = read_record(key, value)
        if isinstance(entry, OffsetEntry):
            yield entry


def _answered(
    context: RequestContext,
    now: Now,
    handle: Callable[[Turn], ApiMessage],
    refused: Callable[[int], ApiMessage],
) -> TurnOutcome:
    """One request, one answer at once: what `handle` says, or the code of the error it raised."""
    turn = Turn(now)
    try:
        response = handle(turn)
    except KafkaError as error:
        response = refused(error.code)
    turn.answer(context.token, response)
    return turn.outcome()
