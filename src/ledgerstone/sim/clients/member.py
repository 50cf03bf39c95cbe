"""A consumer in a classic group: joins, is given partitions, reads, commits, heartbeats.

What it reads becomes facts: nothing a reader has seen may change or vanish. What it commits must be
what the group finds again.
"""

import json

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.join_group import (
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
)
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
)
from ledgerstone.protocol.messages.sync_group import (
    SyncGroupAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records
from ledgerstone.sim.clients.group_book import GroupBook
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.model import SERIAL_HEADER, NodeModel
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition

SESSION_MS = 10_000
REBALANCE_MS = 20_000
_HEARTBEAT_MS = 2_000
_TIMEOUT_MS = 5_000
_BACKOFF_MS = 200
_FETCH_WAIT_MS = 1_000
_REJOIN = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)
_WAIT = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


class Member:
    """One request at a time on `wire`; a second link, `reading`, fetches meanwhile."""

    def __init__(
        self,
        world: World,
        wire: Wire,
        reading: Wire,
        model: NodeModel,
        *,
        book: GroupBook,
        partitions: list[TopicPartition],
        joins_at_ms: int,
    ) -> None:
        self.world, self.wire, self.reading, self.model = world, wire, reading, model
        self.name = wire.name
        self.book = book
        self._topics = partitions
        self._dice = world.dice(f"workload/{wire.name}")
        self.member_id = ""
        self.generation_id = -1
        self._leader = ""
        self.owned: list[TopicPartition] = []
        self.positions: dict[TopicPartition, int] = {}
        self.is_stopped = False
        # Since when every heartbeat was answered in time, by which process.
        self._heard_ms = 0
        self._heard_boot = -1
        # Counts generations and stops: an answer for an earlier one changes nothing.
        self._turn = 0
        world.after(joins_at_ms, f"{self.name} joins", self._join)

    @property
    def is_settled(self) -> bool:
        return self.is_stopped or bool(self.owned) or self.generation_id >= 0

    def die(self, back_ms: int) -> None:
        """The process behind it ends without a word and comes back knowing nothing."""
        self._turn += 1
        self.is_stopped = True
        self.owned, self.member_id, self.generation_id = [], "", -1
        self.wire.hang_up()
        self.reading.hang_up()
        self.world.after(back_ms, f"{self.name} is back", self._come_back)

    def _come_back(self) -> None:
        self.is_stopped = False
        self._join()

    # -- joining ------------------------------------------------------------------------------

    def _join(self) -> None:
        if self.is_stopped:
            return
        self._turn += 1
        turn = self._turn
        self.owned, self.generation_id = [], -1
        request = JoinGroupRequest(
            group_id=self.book.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupProtocol(name="range", metadata=b"")],
        )
        timeout_ms = REBALANCE_MS + _TIMEOUT_MS
        self.wire.ask(request, 9, lambda m: self._joined(turn, m), timeout_ms)

    def _again(self, turn: int, delay_ms: int = _BACKOFF_MS) -> None:
        label = f"{self.name} joins again"
        self.world.after(delay_ms, label, lambda: self._join() if turn == self._turn else None)

    def _joined(self, turn: int, message: ApiMessage | None) -> None:
        if turn != self._turn:
            return
        if message is None:
            self._again(turn)
            return
        assert isinstance(message, JoinGroupResponse)
        code = message.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = message.member_id
            self._join()
        elif code in _REJOIN or code in _WAIT:
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
        timeout_ms = REBALANCE_MS + _TIMEOUT_MS
        self.wire.ask(request, 5, lambda m: self._synced(turn, m), timeout_ms)

    def _synced(self, turn: int, message: ApiMessage | None) -> None:
        if turn != self._turn:
            return
        if message is None:
            self._again(turn)
            return
        assert isinstance(message, SyncGroupResponse)
        code = message.error_code
        if code != ErrorCode.NONE:
            if code not in _REJOIN and code not in _WAIT:
                raise Violation("GroupAnswers", f"SyncGroup got {ErrorCode(code).name}")
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._again(turn)
            return
        owned = [TopicPartition(*each) for each in json.loads(message.assignment or b"[]")]
        self.book.synced(self.generation_id, self._leader, self.member_id, owned)
        self.owned = owned
        self._heard_ms, self._heard_boot = self.world.now_ms, self.model.node.boot
        self._heartbeat_later(turn)
        if self.owned:
            self._fetch_offsets(turn)

    # -- heartbeats ---------------------------------------------------------------------------

    def _heartbeat_later(self, turn: int) -> None:
        self.world.after(_HEARTBEAT_MS, f"{self.name} beats", lambda: self._heartbeat(turn))

    def _heartbeat(self, turn: int) -> None:
        if turn != self._turn:
            return
        request = HeartbeatRequest(
            group_id=self.book.group, generation_id=self.generation_id, member_id=self.member_id
        )
        self.wire.ask(request, 4, lambda m: self._beaten(turn, m), _TIMEOUT_MS)

    def _beaten(self, turn: int, message: ApiMessage | None) -> None:
        if turn != self._turn:
            return
        if message is None:
            self._heartbeat_later(turn)
            return
        assert isinstance(message, HeartbeatResponse)
        code = message.error_code
        node = self.model.node
        if code == ErrorCode.NONE:
            self._heard_ms, self._heard_boot = self.world.now_ms, node.boot
            self._heartbeat_later(turn)
        elif code in _WAIT:
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

    # -- offsets ------------------------------------------------------------------------------

    def _fetch_offsets(self, turn: int) -> None:
        topics: dict[str, list[int]] = {}
        for tp in self.owned:
            topics.setdefault(tp.topic, []).append(tp.partition)
        group = OffsetFetchRequestGroup(
            group_id=self.book.group,
            topics=[
                OffsetFetchRequestGroupTopic(name=name, partition_indexes=numbers)
                for name, numbers in topics.items()
            ],
        )
        request = OffsetFetchRequest(groups=[group])
        self.reading.ask(request, 8, lambda m: self._know_offsets(turn, m), _TIMEOUT_MS)

    def _know_offsets(self, turn: int, message: ApiMessage | None) -> None:
        if turn != self._turn:
            return
        group = None if message is None else message.groups[0]  # type: ignore[attr-defined]
        if group is None or group.error_code in _WAIT:
            label = f"{self.name} asks offsets"
            self.world.after(_BACKOFF_MS, label, lambda: self._fetch_offsets(turn))
            return
        assert isinstance(message, OffsetFetchResponse)
        if group.error_code != ErrorCode.NONE:
            raise Violation("GroupAnswers", f"OffsetFetch got {ErrorCode(group.error_code).name}")
        for topic in group.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                commit = self.model.commit_of(self.book.group, tp)
                if not commit.allows(each.committed_offset):
                    raise Violation(
                        "CommitsStay",
                        f"{self.book.group} {tp}: committed {commit.acked}, tried "
                        f"{commit.attempts}, found {each.committed_offset}",
                    )
                self.positions[tp] = max(each.committed_offset, 0)
        self._fetch(turn)

    # -- reading ------------------------------------------------------------------------------

    def _fetch(self, turn: int) -> None:
        if turn != self._turn or self.is_stopped:
            return
        topics: dict[str, list[FetchPartition]] = {}
        for tp in self.owned:
            topics.setdefault(tp.topic, []).append(
                FetchPartition(
                    partition=tp.partition,
                    fetch_offset=self.positions.get(tp, 0),
                    partition_max_bytes=1 << 16,
                )
            )
        request = FetchRequest(
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic=name, partitions=each) for name, each in topics.items()],
        )
        self.reading.ask(request, 12, lambda m: self._fetched(turn, m), _TIMEOUT_MS)

    def _fetched(self, turn: int, message: ApiMessage | None) -> None:
        if turn != self._turn:
            return
        has_news = False
        if message is not None:
            assert isinstance(message, FetchResponse)
            for topic in message.responses:
                for each in topic.partitions:
                    tp = TopicPartition(topic.topic, each.partition_index)
                    has_news = self._took(tp, each.error_code, each.records) or has_news
        if has_news and self._dice.chance(60):
            self._commit(turn)
            return
        delay_ms = _BACKOFF_MS if message is None else self._dice.below(600)
        self.world.after(delay_ms, f"{self.name} reads", lambda: self._fetch(turn))

    def _took(self, tp: TopicPartition, code: int, records: object) -> bool:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and self.model.losses:
            self.positions[tp] = 0
            return False
        if code in _WAIT:
            return False
        if code != ErrorCode.NONE:
            detail = f"{self.name} at {self.positions[tp]} of {tp}: {ErrorCode(code).name}"
            raise Violation("ReadersGoOn", detail)
        data = bytes(records or b"")  # type: ignore[call-overload]
        position = self.positions.get(tp, 0)
        for at, header in iter_headers(data):
            for record in iter_records(data, at):
                if record.offset >= position:
                    serial = int(bytes(dict(record.headers).get(SERIAL_HEADER) or b"-1"))
                    self.model.learn(tp, record.offset, serial)
            position = max(position, header.next_offset)
        is_new = position > self.positions.get(tp, 0)
        self.positions[tp] = position
        return is_new

    # -- committing ---------------------------------------------------------------------------

    def _commit(self, turn: int) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        sent: dict[TopicPartition, int] = {}
        for tp in self.owned:
            sent[tp] = self.positions.get(tp, 0)
            self.model.commit_of(self.book.group, tp).attempts.append(sent[tp])
            topics.setdefault(tp.topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=tp.partition, committed_offset=sent[tp]
                )
            )
        request = OffsetCommitRequest(
            group_id=self.book.group,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=n, partitions=p) for n, p in topics.items()],
        )
        self.reading.ask(request, 8, lambda m: self._committed(turn, sent, m), _TIMEOUT_MS)

    def _committed(
        self, turn: int, sent: dict[TopicPartition, int], message: ApiMessage | None
    ) -> None:
        if message is None:
            for tp, offset in sent.items():
                self.model.commit_of(self.book.group, tp).unanswered.append(offset)
        else:
            assert isinstance(message, OffsetCommitResponse)
            for topic in message.topics:
                for each in topic.partitions:
                    tp = TopicPartition(topic.name, each.partition_index)
                    if each.error_code == ErrorCode.NONE:
                        self.book.committed(self.model.commit_of(self.book.group, tp), sent[tp])
        if turn == self._turn:
            self._fetch(turn)
