"""A consumer of a classic group on a cluster: joins, reads what it is given, commits. Part of sim.

It finds its coordinator each time that moves. Now and then it leaves, dies and comes back as a
stranger, or stands still for longer than its session and then commits as if nothing had happened.
"""

import json
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest
from ledgerstone.protocol.messages.join_group import JoinGroupProtocol, JoinGroupRequest
from ledgerstone.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from ledgerstone.protocol.messages.sync_group import SyncGroupAssignment, SyncGroupRequest
from ledgerstone.sim.clients.script import Asking, Resting, Script
from ledgerstone.sim.history.operations import OpOutcome
from ledgerstone.sim.replicas.clients.cluster_group import ClusterGroup
from ledgerstone.sim.replicas.clients.reach import GROUP, TIMEOUT_MS
from ledgerstone.sim.replicas.clients.reader import COORDINATOR_MOVED, PartitionReader
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition

SESSION_MS: Final = 6_000
_REBALANCE_MS: Final = 5_000
_HEARTBEAT_MS: Final = 1_000
_JOIN_VERSION: Final = 9
_SYNC_VERSION: Final = 5
_HEARTBEAT_VERSION: Final = 4
_LEAVE_VERSION: Final = 5
_REJOIN: Final = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


@dataclass(slots=True, kw_only=True)
class ClusterMember:
    reader: PartitionReader
    book: ClusterGroup
    is_over: list[bool]
    _member_id: str = ""
    _generation_id: int = -1
    _leader: str = ""
    _positions: dict[TopicPartition, int] = field(default_factory=dict)

    def script(self) -> Script[None]:
        yield Resting(self.reader.reach.dice.below(2_500))
        while not self._is_done:
            owned = yield from self._join()
            if owned is None:
                yield self.reader.reach.rest()
            elif (yield from self._begin(owned)):
                yield from self._live(owned)
        yield from self._leave()

    @property
    def _is_done(self) -> bool:
        return self.is_over[0] and (self.book.is_caught_up or self.book.is_lost)

    # -- belonging ----------------------------------------------------------------------------

    def _join(self) -> Script[list[TopicPartition] | None]:
        """None where it has to try again."""
        reach = self.reader.reach
        wire = yield from reach.coordinator_of(GROUP, self.book.group)
        request = JoinGroupRequest(
            group_id=self.book.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupProtocol(name="range", metadata=b"")],
        )
        answer = yield Asking(wire, request, _JOIN_VERSION, _REBALANCE_MS + TIMEOUT_MS)
        code = None if answer is None else answer.error_code
        if answer is not None and code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return None
        if answer is None or code != ErrorCode.NONE:
            self._heard(code, "JoinGroup")
            return None
        self._member_id, self._generation_id = answer.member_id, answer.generation_id
        self._leader = answer.leader
        members = sorted(each.member_id for each in answer.members)
        return (yield from self._sync(members if self._leader == self._member_id else []))

    def _sync(self, members: list[str]) -> Script[list[TopicPartition] | None]:
        given: dict[str, list[tuple[str, int]]] = {each: [] for each in members}
        for place, each in enumerate(self.book.places):
            if members:
                given[members[place % len(members)]].append((each.topic, each.partition))
        request = SyncGroupRequest(
            group_id=self.book.group,
            generation_id=self._generation_id,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupAssignment(member_id=member, assignment=json.dumps(owned).encode())
                for member, owned in given.items()
            ],
        )
        wire = yield from self.reader.reach.coordinator_of(GROUP, self.book.group)
        answer = yield Asking(wire, request, _SYNC_VERSION, _REBALANCE_MS + TIMEOUT_MS)
        if answer is None or answer.error_code != ErrorCode.NONE:
            self._heard(None if answer is None else answer.error_code, "SyncGroup")
            return None
        owned = [TopicPartition(*each) for each in json.loads(bytes(answer.assignment) or b"[]")]
        self.book.synced(self._generation_id, self._leader, self._member_id, owned)
        return owned

    def _beat(self) -> Script[bool]:
        """False where it has to join again."""
        reach = self.reader.reach
        wire = yield from reach.coordinator_of(GROUP, self.book.group)
        request = HeartbeatRequest(
            group_id=self.book.group,
            generation_id=self._generation_id,
            member_id=self._member_id,
        )
        answer = yield Asking(wire, request, _HEARTBEAT_VERSION, TIMEOUT_MS)
        code = None if answer is None else answer.error_code
        return code == ErrorCode.NONE or not self._heard(code, "Heartbeat")

    def _heard(self, code: int | None, what: str) -> bool:
        """Whether the membership is over; otherwise the coordinator is looked for."""
        if code in _REJOIN:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            return True
        if code is not None and code not in COORDINATOR_MOVED:
            name = f"{self.reader.reach.name}: {what} {ErrorCode(code).name}"
            raise Violation("GroupsAnswer", name)
        self.reader.reach.forget_coordinator(GROUP, self.book.group)
        return False

    def _leave(self) -> Script[None]:
        wire = yield from self.reader.reach.coordinator_of(GROUP, self.book.group)
        request = LeaveGroupRequest(
            group_id=self.book.group, members=[LeaveGroupRequestMember(member_id=self._member_id)]
        )
        yield Asking(wire, request, _LEAVE_VERSION, TIMEOUT_MS)
        self._member_id = ""

    # -- reading ------------------------------------------------------------------------------

    def _begin(self, owned: list[TopicPartition]) -> Script[bool]:
        """Where the group stands; False where it lost its membership meanwhile."""
        self._positions = {}
        while len(self._positions) < len(owned):
            for place in owned:
                if place in self._positions:
                    continue
                stored = yield from self.reader.stored(place)
                if stored is not None:
                    self._positions[place] = max(stored, 0)
                    self.reader.assigned(place, max(stored, 0))
            if not (yield from self._beat()):
                return False
            if len(self._positions) < len(owned):
                yield self.reader.reach.rest()
        return True

    def _live(self, owned: list[TopicPartition]) -> Script[None]:
        reach, dice = self.reader.reach, self.reader.reach.dice
        beat_ms = reach.world.now_ms
        for _ in range(dice.between(4, 30)):
            if self._is_done:
                return
            for place in owned:
                position = yield from self.reader.poll(place, self._positions[place])
                self._positions[place] = position
                self.book.read_to[place] = max(position, self.book.read_to.get(place, 0))
                if dice.chance(25) and not (yield from self._commit(place)):
                    return
            if reach.world.now_ms - beat_ms >= _HEARTBEAT_MS:
                beat_ms = reach.world.now_ms
                if not (yield from self._beat()):
                    if owned and self._member_id and dice.chance(50):
                        # As an eager consumer does before it joins again.
                        yield from self._commit(dice.pick(owned))
                    return
            yield Resting(dice.below(300))
        yield from self._change(owned)

    def _change(self, owned: list[TopicPartition]) -> Script[None]:
        """Something happens to its process."""
        reach, dice = self.reader.reach, self.reader.reach.dice
        fate = dice.pick(("leaves", "dies", "sleeps", "joins again"))
        reach.world.mark(f"a member {fate}")
        if fate == "leaves":
            yield from self._leave()
        elif fate == "dies":
            self._member_id = ""
        elif fate == "sleeps":
            yield Resting(SESSION_MS + dice.below(4_000))
            if owned:
                yield from self._commit(dice.pick(owned))

    def _commit(self, place: TopicPartition) -> Script[bool]:
        """False where it has to join again."""
        position, began_ms = self._positions[place], self.reader.reach.world.now_ms
        code, outcome = yield from self.reader.commit(
            place, position, member=(self._member_id, self._generation_id)
        )
        if outcome is OpOutcome.OK:
            self.book.committed(self._generation_id, place, position, began_ms)
        elif outcome is OpOutcome.UNKNOWN:
            self.book.tried(place, position)
        if code in _REJOIN:
            self.reader.reach.world.mark(f"a commit met {ErrorCode(code).name}")
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            return False
        return True
