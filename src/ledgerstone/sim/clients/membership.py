"""Belonging to a classic group: joins, is given partitions, heartbeats. What is done with the
partitions is up to its owner: a reader, or a worker that reads, processes and writes.
"""

import json
from collections.abc import Callable

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.join_group import (
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
)
from ledgerstone.protocol.messages.sync_group import (
    SyncGroupAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ledgerstone.sim.clients.group_book import GroupBook
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition

SESSION_MS = 10_000
REBALANCE_MS = 20_000
_HEARTBEAT_MS = 2_000
TIMEOUT_MS = 5_000
BACKOFF_MS = 200
_REJOIN = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)
# The broker cannot say now; it is asked again.
WAIT = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


class Membership:
    """One request at a time on `wire`. `on_assigned` is called with the turn, if there are
    partitions; an answer for an earlier turn changes nothing."""

    def __init__(
        self,
        world: World,
        wire: Wire,
        model: NodeModel,
        *,
        book: GroupBook,
        partitions: list[TopicPartition],
        joins_at_ms: int,
        on_assigned: Callable[[int], None],
    ) -> None:
        self.world, self.wire, self.model = world, wire, model
        self.name = wire.name
        self.book = book
        self._topics = partitions
        self._on_assigned = on_assigned
        self.member_id = ""
        self.generation_id = -1
        self._leader = ""
        self.owned: list[TopicPartition] = []
        self.is_stopped = False
        # Since when every heartbeat was answered in time, by which process.
        self._heard_ms = 0
        self._heard_boot = -1
        # Counts generations and stops.
        self.turn = 0
        wire.gate.after(joins_at_ms, f"{self.name} joins", self.join)

    def stop(self) -> None:
        """Without a word; what it knew is forgotten."""
        self.turn += 1
        self.is_stopped = True
        self.owned, self.member_id, self.generation_id = [], "", -1
        self.wire.hang_up()

    # -- joining ------------------------------------------------------------------------------

    def join(self) -> None:
        if self.is_stopped:
            return
        self.turn += 1
        turn = self.turn
        self.owned, self.generation_id = [], -1
        request = JoinGroupRequest(
            group_id=self.book.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupProtocol(name="range", metadata=b"")],
        )
        timeout_ms = REBALANCE_MS + TIMEOUT_MS
        self.wire.ask(request, 9, lambda m: self._joined(turn, m), timeout_ms)

    def _again(self, turn: int, delay_ms: int = BACKOFF_MS) -> None:
        label = f"{self.name} joins again"
        self.wire.gate.after(delay_ms, label, lambda: self.join() if turn == self.turn else None)

    def _joined(self, turn: int, message: ApiMessage | None) -> None:
        if turn != self.turn:
            return
        if message is None:
            self._again(turn)
            return
        assert isinstance(message, JoinGroupResponse)
        code = message.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = message.member_id
            self.join()
        elif code in _REJOIN or code in WAIT:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._again(turn)
        elif code != ErrorCode.NONE:
            raise Violation("GroupAnswers", f"JoinGroup got {ErrorCode(code).name}")
        else:
            self.member_id, self.generation_id = message.member_id, message.generation_id
            self._leader = message.leader
            self.book.joined(message, self.model)
            members = sorted(each.member_id for each in message.members)
            self._sync(turn, members if message.leader == self.member_id else [])

    def _sync(self, turn: int, members: list[str]) -> None:
        given: dict[str, list[tuple[str, int]]] = {each: [] for each in members}
        for place, tp in enumerate(self._topics):
            if members:
                given[members[place % len(members)]].append((tp.topic, tp.partition))
        request = SyncGroupRequest(
            group_id=self.book.group,
            generation_id=self.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupAssignment(member_id=each, assignment=json.dumps(owned).encode())
                for each, owned in given.items()
            ],
        )
        timeout_ms = REBALANCE_MS + TIMEOUT_MS
        self._heard_ms = self.world.now_ms
        self.wire.ask(request, 5, lambda m: self._synced(turn, m), timeout_ms)

    def _synced(self, turn: int, message: ApiMessage | None) -> None:
        if turn != self.turn:
            return
        if message is None:
            self._again(turn)
            return
        assert isinstance(message, SyncGroupResponse)
        code = message.error_code
        if code != ErrorCode.NONE:
            if code not in _REJOIN and code not in WAIT:
                raise Violation("GroupAnswers", f"SyncGroup got {ErrorCode(code).name}")
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._again(turn)
            return
        owned = [TopicPartition(*each) for each in json.loads(message.assignment or b"[]")]
        self.book.synced(self.generation_id, self._leader, self.member_id, owned)
        self.owned = owned
        self._heard_boot = self.model.node.boot
        self._heartbeat_later(turn)
        if self.owned:
            self._on_assigned(turn)

    # -- heartbeats ---------------------------------------------------------------------------

    def _heartbeat_later(self, turn: int) -> None:
        self.wire.gate.after(_HEARTBEAT_MS, f"{self.name} beats", lambda: self._heartbeat(turn))

    def _heartbeat(self, turn: int) -> None:
        if turn != self.turn:
            return
        request = HeartbeatRequest(
            group_id=self.book.group, generation_id=self.generation_id, member_id=self.member_id
        )
        sent_ms = self.world.now_ms
        self.wire.ask(request, 4, lambda m: self._beaten(turn, sent_ms, m), TIMEOUT_MS)

    def _beaten(self, turn: int, sent_ms: int, message: ApiMessage | None) -> None:
        if turn != self.turn:
            return
        if message is None:
            self._heartbeat_later(turn)
            return
        assert isinstance(message, HeartbeatResponse)
        code = message.error_code
        node = self.model.node
        if code == ErrorCode.NONE:
            # Since it was sent: whoever stood still reads an old answer.
            self._heard_ms, self._heard_boot = sent_ms, node.boot
            self._heartbeat_later(turn)
        elif code in WAIT:
            self._heartbeat_later(turn)
        elif code in _REJOIN:
            silent_ms = self.world.now_ms - self._heard_ms
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                if silent_ms < SESSION_MS // 2 and self._heard_boot == node.boot:
                    detail = f"{self.name} was expelled {silent_ms} ms after its last heartbeat"
                    raise Violation("HeartbeatsKeepMembers", detail)
                self.member_id = ""
            if self._heard_boot != node.boot:
                self.world.mark("a group rebalanced after a restart")
            self._again(turn, 0)
        else:
            raise Violation("GroupAnswers", f"Heartbeat got {ErrorCode(code).name}")
